// Real servers and their load, started by the tests.
#ifndef PROFD_TESTS_SYSTEM_HARNESS_SERVERS_H_
#define PROFD_TESTS_SYSTEM_HARNESS_SERVERS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/system/harness/subprocess.h"

namespace profd::e2e {

// The path of a program in PATH or in one of Debian's directories for PostgreSQL; "" when absent.
std::string FindProgram(const std::string& name);

// A cluster of its own in a temporary directory, on a socket there, run as user postgres.
class Postgres {
 public:
  // NotFound when PostgreSQL is not installed.
  static absl::StatusOr<std::unique_ptr<Postgres>> Start();
  ~Postgres();

  int pid() const { return server_->pid(); }
  // `pgbench -i -s 5`.
  absl::Status Fill();
  // `pgbench -S -c 8` without end, as far as a test goes; it ends with its handle.
  absl::StatusOr<std::unique_ptr<Subprocess>> Bench();

 private:
  Postgres() = default;
  Command AsPostgres(std::vector<std::string> argv) const;

  TemporaryDirectory directory_;
  std::unique_ptr<Subprocess> server_;
};

class Redis {
 public:
  // NotFound when redis is not installed.
  static absl::StatusOr<std::unique_ptr<Redis>> Start();

  int pid() const { return server_->pid(); }
  // redis-benchmark of GET and SET without end; it ends with its handle.
  absl::StatusOr<std::unique_ptr<Subprocess>> Bench();

 private:
  Redis() = default;
  TemporaryDirectory directory_;
  std::unique_ptr<Subprocess> server_;
};

// Source text of a Rust program that takes `rustc -O` some seconds on several threads.
std::string RustProgram(int modules);

}  // namespace profd::e2e

#endif  // PROFD_TESTS_SYSTEM_HARNESS_SERVERS_H_
