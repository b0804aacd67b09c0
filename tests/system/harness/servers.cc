#include "tests/system/harness/servers.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"

namespace profd::e2e {
namespace {

absl::Status MustSucceed(const Command& command, milliseconds timeout) {
  ASSIGN_OR_RETURN(const Finished finished, RunToEnd(command, timeout));
  if (finished.code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(command.argv[0], " ended with ", finished.code, ": ",
                                          finished.out, finished.err));
}

}  // namespace

std::string FindProgram(const std::string& name) {
  std::vector<std::string> directories;
  if (const char* path = getenv("PATH"); path != nullptr) {
    directories = absl::StrSplit(path, ':', absl::SkipEmpty());
  }
  // The newest version first, and before wrappers in PATH.
  std::vector<std::string> versions;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/usr/lib/postgresql", error), end;
       !error && entry != end; entry.increment(error)) {
    versions.push_back(entry->path().string() + "/bin");
  }
  std::sort(versions.begin(), versions.end());
  for (const std::string& version : versions) directories.insert(directories.begin(), version);
  for (const std::string& directory : directories) {
    const std::string path = absl::StrCat(directory, "/", name);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

Command Postgres::AsPostgres(std::vector<std::string> argv) const {
  Command command{std::move(argv)};
  command.user = "postgres";
  command.directory = directory_.path();
  command.environment = {{"PGHOST", directory_.path()}, {"PGUSER", "postgres"}};
  return command;
}

absl::StatusOr<std::unique_ptr<Postgres>> Postgres::Start() {
  const std::string initdb = FindProgram("initdb"), server = FindProgram("postgres"),
                    isready = FindProgram("pg_isready");
  if (initdb.empty() || server.empty() || isready.empty() || FindProgram("pgbench").empty()) {
    return absl::NotFoundError("PostgreSQL is not installed");
  }
  std::unique_ptr<Postgres> postgres(new Postgres);
  const std::string& directory = postgres->directory_.path();
  RETURN_IF_ERROR(MustSucceed({{"chown", "postgres", directory}}, seconds(60)));
  RETURN_IF_ERROR(MustSucceed(
      postgres->AsPostgres({initdb, "--no-sync", "-A", "trust", "-D", directory + "/data"}),
      seconds(120)));
  ASSIGN_OR_RETURN(postgres->server_, Subprocess::Start(postgres->AsPostgres(
                                          {server, "-D", directory + "/data", "-k", directory, "-c",
                                           "listen_addresses=", "-c", "logging_collector=off"})));
  const bool ready = Eventually(seconds(60), [&] {
    return MustSucceed(postgres->AsPostgres({isready, "-q"}), seconds(60)).ok();
  });
  if (!ready) {
    return absl::UnavailableError(absl::StrCat(
        "PostgreSQL did not start: ", postgres->server_->Output(Subprocess::Stream::kStderr)));
  }
  return postgres;
}

Postgres::~Postgres() {
  if (server_ == nullptr) return;
  // Its processes have groups of their own: let it end them.
  server_->Signal(SIGINT);
  if (!server_->Wait(seconds(20))) server_->Signal(SIGQUIT);
  server_->Wait(seconds(10));
}

absl::Status Postgres::Fill() {
  return MustSucceed(AsPostgres({FindProgram("pgbench"), "-i", "-q", "-s", "5", "postgres"}),
                     seconds(120));
}

absl::StatusOr<std::unique_ptr<Subprocess>> Postgres::Bench() {
  return Subprocess::Start(
      AsPostgres({FindProgram("pgbench"), "-n", "-S", "-c", "8", "-T", "3600", "postgres"}));
}

absl::StatusOr<std::unique_ptr<Redis>> Redis::Start() {
  const std::string server = FindProgram("redis-server"), client = FindProgram("redis-cli");
  if (server.empty() || client.empty() || FindProgram("redis-benchmark").empty()) {
    return absl::NotFoundError("redis is not installed");
  }
  std::unique_ptr<Redis> redis(new Redis);
  const std::string& directory = redis->directory_.path();
  ASSIGN_OR_RETURN(
      redis->server_,
      Subprocess::Start({{server, "--port", "0", "--unixsocket", directory + "/redis.sock", "--dir",
                          directory, "--save", "", "--appendonly", "no"}}));
  const bool ready = Eventually(seconds(30), [&] {
    const auto pong = RunToEnd({{client, "-s", directory + "/redis.sock", "ping"}}, seconds(60));
    return pong.ok() && pong->code == 0 && absl::StartsWith(pong->out, "PONG");
  });
  if (!ready) {
    return absl::UnavailableError(
        absl::StrCat("redis did not start: ", redis->server_->Output(Subprocess::Stream::kStdout)));
  }
  return redis;
}

absl::StatusOr<std::unique_ptr<Subprocess>> Redis::Bench() {
  return Subprocess::Start(
      {{FindProgram("redis-benchmark"), "-s", directory_.path() + "/redis.sock", "-t", "get,set",
        "-c", "8", "-q", "-l"}});
}

std::string RustProgram(int modules) {
  std::string text = "use std::collections::{BTreeMap, HashMap};\n";
  for (int i = 0; i < modules; ++i) {
    text += absl::Substitute(R"(
mod m$0 {
    use super::*;
    #[derive(Clone, Debug, PartialEq, PartialOrd)]
    pub struct Item { pub key: u64, pub name: String, pub values: Vec<f64> }
    pub fn build(n: u64) -> HashMap<String, Vec<Item>> {
        let mut map: HashMap<String, Vec<Item>> = HashMap::new();
        for key in 0..n {
            let item = Item {
                key, name: format!("{}-{}", key, $0),
                values: (0..key % 7).map(|v| v as f64 * 1.$0).collect(),
            };
            map.entry(format!("{}", key % 13)).or_default().push(item);
        }
        map
    }
    pub fn fold(map: &HashMap<String, Vec<Item>>) -> BTreeMap<u64, f64> {
        let mut sums = BTreeMap::new();
        for (name, items) in map {
            let mut sorted = items.clone();
            sorted.sort_by(|a, b| b.partial_cmp(a).unwrap());
            for item in sorted.iter().filter(|i| i.name.len() > 1 + $0 % 3) {
                *sums.entry(item.key ^ name.len() as u64).or_insert(0.0) +=
                    item.values.iter().zip(item.values.iter().rev()).map(|(a, b)| a * b).sum::<f64>();
            }
        }
        sums
    }
}
)",
                             i);
  }
  text += "fn main() {\n    let mut total = 0.0;\n";
  for (int i = 0; i < modules; ++i) {
    absl::StrAppend(&text, "    total += m", i, "::fold(&m", i, "::build(", 100 + i,
                    ")).values().sum::<f64>();\n");
  }
  return text + "    println!(\"{}\", total);\n}\n";
}

}  // namespace profd::e2e
