// Facts of the machine that a test may need. Each has a name, by which the list of permitted skips
// refers to it.
#ifndef PROFD_TESTS_SUPPORT_MACHINE_H_
#define PROFD_TESTS_SUPPORT_MACHINE_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>

// Set in builds whose sanitizer replaces malloc and reserves terabytes of address space: tests that
// this breaks are left out there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PROFD_SANITIZED 1
#elif defined(__clang__)
#define PROFD_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define PROFD_SANITIZED 0
#endif

namespace profd::test {

// Whether the machine has this fact, one of the table in machine.cc. The environment variable
// PROFD_FACTS names a JSON file, {"facts": {"root": true, ...}}; what it does not say is probed
// here. An unknown name fails the
// test.
bool HasFact(std::string_view fact);

// Where cgroups that limit the number of threads can be made; empty: nowhere.
std::string PidsCgroups();

// "skipped: FACT: what is missing".
std::string SkipMessage(std::string_view fact);

}  // namespace profd::test

// Skips the calling test where the machine lacks the fact. In a test body or in SetUp().
#define REQUIRE_FACT(fact)                                                               \
  do {                                                                                   \
    if (!::profd::test::HasFact(fact)) GTEST_SKIP() << ::profd::test::SkipMessage(fact); \
  } while (false)

#endif  // PROFD_TESTS_SUPPORT_MACHINE_H_
