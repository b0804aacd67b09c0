#include "daemon/symbolize/jit_dump.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/fd.h"

namespace profd::symbolize {
namespace {

constexpr uint32_t kMagic = 0x4A695444;  // "JiTD"
constexpr size_t kMaxKeptName = 4096;

struct FileHeader {
  uint32_t magic;
  uint32_t version;
  uint32_t size;
  uint32_t machine;
  uint32_t padding;
  uint32_t pid;
  uint64_t time;
  uint64_t flags;
};
static_assert(sizeof(FileHeader) == 40);

enum RecordId : uint32_t { kLoad = 0, kMove = 1 };

struct RecordHeader {
  uint32_t id;
  uint32_t size;  // of the whole record
  uint64_t time;
};

struct LoadRecord {
  RecordHeader header;
  uint32_t pid;
  uint32_t tid;
  uint64_t virtual_address;
  uint64_t address;
  uint64_t code_size;
  uint64_t index;
  // Followed by the name with its NUL, and the code.
};
static_assert(sizeof(LoadRecord) == 56);

struct MoveRecord {
  RecordHeader header;
  uint32_t pid;
  uint32_t tid;
  uint64_t virtual_address;
  uint64_t old_address;
  uint64_t address;
  uint64_t code_size;
  uint64_t index;
};
static_assert(sizeof(MoveRecord) == 64);

// Finds the last record for each address. Keeps only where in the file its name is, or which code
// was moved there.
class DumpScan {
 public:
  DumpScan(int fd, uint64_t size, std::span<const uint64_t> addresses, const JitDumpLimits& limits)
      : fd_(fd),
        size_(size),
        addresses_(addresses),
        limits_(limits),
        matches_left_(limits.max_matches),
        places_(addresses.size()) {}

  absl::StatusOr<PerfMapNames> Run() {
    FileHeader header{};
    if (size_ < sizeof(header)) return absl::InvalidArgumentError("no jitdump");
    RETURN_IF_ERROR(ReadFileAt(fd_, 0, &header, sizeof(header)));
    if (header.magic != kMagic || header.size < sizeof(header)) {
      return absl::InvalidArgumentError("no jitdump");
    }
    found_.bytes_read = sizeof(header);
    ForEachRecord(header.size, [&](uint64_t at, const RecordHeader& record) {
      if (record.id == kLoad) return OnLoad(at, record);
      return record.id != kMove || OnMove(at, record);
    });
    FollowMoves(header.size);
    ReadNames();
    return std::move(found_);
  }

 private:
  struct Place {
    uint64_t at = 0;  // of the name; 0: none
    uint64_t end = 0;
    uint64_t moved = 0;  // index of the code, if `is_moved`
    bool is_moved = false;
  };

  template <typename Visit>
  void ForEachRecord(uint64_t at, Visit visit) {
    for (uint64_t count = 0; size_ - std::min(at, size_) >= sizeof(RecordHeader); ++count) {
      RecordHeader record{};
      if (count == limits_.max_records) {
        found_.cut = true;
        return;
      }
      if (!ReadFileAt(fd_, at, &record, sizeof(record)).ok()) return;
      found_.bytes_read += sizeof(record);
      if (record.size < sizeof(record)) {
        // Where the next one begins is not known.
        ++found_.malformed;
        return;
      }
      if (record.size > size_ - at || !visit(at, record)) return;
      at += record.size;
    }
  }

  template <typename Record>
  bool Read(uint64_t at, const RecordHeader& header, Record* record) {
    if (header.size < sizeof(Record)) {
      ++found_.malformed;
      return false;
    }
    found_.bytes_read += sizeof(Record);
    return ReadFileAt(fd_, at, record, sizeof(Record)).ok();
  }

  // False when the limit is reached.
  bool Assign(uint64_t address, uint64_t code_size, const Place& place) {
    const uint64_t end =
        address + std::min(code_size, std::numeric_limits<uint64_t>::max() - address);
    const auto first = std::lower_bound(addresses_.begin(), addresses_.end(), address);
    for (auto i = static_cast<size_t>(first - addresses_.begin());
         i < addresses_.size() && addresses_[i] < end; ++i) {
      if (matches_left_ == 0) {
        found_.cut = true;
        return false;
      }
      --matches_left_;
      places_[i] = place;
    }
    return true;
  }

  static Place NameOf(uint64_t at, const RecordHeader& header) {
    return {.at = at + sizeof(LoadRecord), .end = at + header.size};
  }

  bool OnLoad(uint64_t at, const RecordHeader& header) {
    LoadRecord record{};
    return !Read(at, header, &record) ||
           Assign(record.address, record.code_size, NameOf(at, header));
  }

  bool OnMove(uint64_t at, const RecordHeader& header) {
    MoveRecord record{};
    return !Read(at, header, &record) ||
           Assign(record.address, record.code_size, {.moved = record.index, .is_moved = true});
  }

  // Code that was moved has the name with which it was loaded.
  void FollowMoves(uint64_t first_record) {
    absl::flat_hash_map<uint64_t, Place> wanted;  // by index
    for (const Place& place : places_) {
      if (place.is_moved) wanted.try_emplace(place.moved);
    }
    if (wanted.empty()) return;
    ForEachRecord(first_record, [&](uint64_t at, const RecordHeader& header) {
      LoadRecord record{};
      if (header.id == kLoad && Read(at, header, &record)) {
        const auto it = wanted.find(record.index);
        if (it != wanted.end()) it->second = NameOf(at, header);
      }
      return true;
    });
    for (Place& place : places_) {
      if (place.is_moved) place = wanted[place.moved];
    }
  }

  void ReadNames() {
    found_.names.resize(places_.size());
    for (size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      if (place.end <= place.at) continue;
      std::string name(std::min<uint64_t>(place.end - place.at, kMaxKeptName), '\0');
      // The file was cut meanwhile.
      if (!ReadFileAt(fd_, place.at, name.data(), name.size()).ok()) continue;
      found_.bytes_read += name.size();
      name.resize(std::min(name.find('\0'), name.size()));
      found_.names[i] = std::move(name);
    }
  }

  const int fd_;
  const uint64_t size_;
  const std::span<const uint64_t> addresses_;
  const JitDumpLimits limits_;
  uint64_t matches_left_;
  std::vector<Place> places_;
  PerfMapNames found_;
};

}  // namespace

int32_t PidOfJitDump(std::string_view path) {
  constexpr std::string_view kPrefix = "jit-";
  constexpr std::string_view kSuffix = ".dump";
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  if (!path.starts_with(kPrefix) || !path.ends_with(kSuffix)) return 0;
  path.remove_prefix(kPrefix.size());
  path.remove_suffix(kSuffix.size());
  int32_t pid = 0;
  const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), pid);
  return error == std::errc() && end == path.data() + path.size() && pid > 0 ? pid : 0;
}

absl::StatusOr<PerfMapNames> FindInJitDump(int fd, std::span<const uint64_t> addresses,
                                           const JitDumpLimits& limits) {
  struct stat st;
  if (fstat(fd, &st) != 0) return ErrnoStatus("fstat", errno);
  return DumpScan(fd, static_cast<uint64_t>(std::max<off_t>(st.st_size, 0)), addresses, limits)
      .Run();
}

}  // namespace profd::symbolize
