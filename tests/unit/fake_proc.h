// A directory that looks like /proc for what is read of processes' memory.
#ifndef PROFD_TESTS_UNIT_FAKE_PROC_H_
#define PROFD_TESTS_UNIT_FAKE_PROC_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace profd {

class FakeProc {
 public:
  struct Process {
    std::string name = "server";
    int64_t start = 4200;  // hundredths of a second
    int64_t flags = 0x400000;
    int64_t rss_kb = 1000, anon_kb = 600, file_kb = 300, shmem_kb = 100;
    int64_t pss_kb = 800;
    int64_t minor_faults = 10;
    std::string cgroup = "/app";
  };

  // `path` is made, and holds a cgroup file system of version 2 at /cgroup.
  explicit FakeProc(std::string path) : path_(std::move(path)) {
    Write("self/mountinfo", "41 31 0:38 / " + path_ + "/cgroup rw - cgroup2 cgroup2 rw\n");
  }

  const std::string& path() const { return path_; }
  void Write(const std::string& file, const std::string& text) const {
    const std::filesystem::path whole = std::filesystem::path(path_) / file;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  void Remove(int32_t pid) const { std::filesystem::remove_all(path_ + "/" + std::to_string(pid)); }

  void Set(int32_t pid, const Process& p) const {
    const std::string directory = std::to_string(pid) + "/";
    const auto stat = [&](int64_t faults) {
      return std::to_string(pid) + " (" + p.name + ") S 1 1 1 0 -1 " + std::to_string(p.flags) +
             " " + std::to_string(faults) + " 0 2 0 0 0 0 0 20 0 3 0 " + std::to_string(p.start) +
             " 0 0\n";
    };
    Write(directory + "stat", stat(p.minor_faults));
    // Of its first thread alone.
    Write(directory + "task/" + std::to_string(pid) + "/stat", stat(1));
    Write(directory + "statm", "9999 " + std::to_string(p.rss_kb / 4) + " 1 1 0 1 0\n");
    Write(directory + "status", "Name:\t" + p.name + "\nVmRSS:\t" + std::to_string(p.rss_kb) +
                                    " kB\nRssAnon:\t" + std::to_string(p.anon_kb) +
                                    " kB\nRssFile:\t" + std::to_string(p.file_kb) +
                                    " kB\nRssShmem:\t" + std::to_string(p.shmem_kb) +
                                    " kB\nVmPTE:\t20 kB\nVmSwap:\t0 kB\nThreads:\t3\n");
    Write(directory + "smaps_rollup",
          "0-1 ---p 0 00:00 0 [rollup]\nRss: 1 kB\nPss: " + std::to_string(p.pss_kb) + " kB\n");
    Write(directory + "cgroup", "0::" + p.cgroup + "\n");
  }

 private:
  const std::string path_;
};

}  // namespace profd

#endif  // PROFD_TESTS_UNIT_FAKE_PROC_H_
