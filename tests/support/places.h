// Where the files are that tests read.
#ifndef PROFD_TESTS_SUPPORT_PLACES_H_
#define PROFD_TESTS_SUPPORT_PLACES_H_

#include <string>
#include <string_view>

namespace profd::test {

// The path of a program or library of this build: those are beside the test's own program.
std::string InBuild(std::string_view name);

// The path of a file of the source tree.
std::string InSource(std::string_view name);

}  // namespace profd::test

#endif  // PROFD_TESTS_SUPPORT_PLACES_H_
