// Messages between profd and the worker that reads debug info, over a SOCK_SEQPACKET socket.
#ifndef PROFD_DAEMON_LINES_PROTOCOL_H_
#define PROFD_DAEMON_LINES_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/lines/source_line.h"

namespace profd {

// A request holds so many addresses at most.
inline constexpr size_t kMaxLineAddresses = 256;
// The largest message: one chain of the greatest length fits.
inline constexpr size_t kMaxLineMessage = 112 << 10;

// What is at these virtual addresses of a file? The file comes as a descriptor beside the message.
struct LineRequest {
  uint64_t id = 0;
  uint64_t file = 0;  // equal numbers: the same file
  std::vector<uint64_t> addresses;
};

// Part of an answer: all chains of a request come in one or more of them.
struct LineAnswer {
  uint64_t id = 0;  // of the request
  bool last = false;
  // The file has no debug info that can be used; there are no chains.
  bool unusable = false;
  std::vector<std::pair<uint64_t, LineChain>> chains;  // by address
};

std::vector<uint8_t> EncodeLineRequest(const LineRequest& request);
// None if the bytes are not a request.
std::optional<LineRequest> DecodeLineRequest(std::span<const uint8_t> bytes);

// Some debug info is in companion files. The worker asks for one while it works on a request, and
// gets a message of one byte with a descriptor, or without one.
struct FileQuestion {
  enum class Kind : uint8_t {
    kSplit = 1,          // a .dwo file, which the compiler wrote beside an object file
    kSupplementary = 2,  // what dwz took out of several debug files
  };
  uint64_t id = 0;  // of the request
  Kind kind = Kind::kSplit;
  std::string name;      // as the debug info has it
  std::string build_id;  // hex; empty for kSplit
};
// A request asks for so many at most.
inline constexpr int kMaxFileQuestions = 1024;
inline constexpr size_t kMaxFileName = 4096;
inline constexpr size_t kMaxBuildId = 128;

std::vector<uint8_t> EncodeFileQuestion(const FileQuestion& question);
// None if the bytes are not a question within these bounds.
std::optional<FileQuestion> DecodeFileQuestion(std::span<const uint8_t> bytes);

// Appends chains to an answer until the message is full.
class LineAnswerWriter {
 public:
  explicit LineAnswerWriter(uint64_t id) : id_(id) { Clear(); }

  void Add(uint64_t address, const LineChain& chain);
  // Enough for a message: it is time to take it.
  bool IsFull() const { return bytes_.size() >= kFull; }
  // The message. The next one begins.
  std::vector<uint8_t> Take(bool last, bool unusable = false);

 private:
  static constexpr size_t kFull = 12 << 10;
  void Clear();

  const uint64_t id_;
  uint32_t count_ = 0;
  std::vector<uint8_t> bytes_;
};

// None if the bytes are not an answer within the bounds of source_line.h: the worker may have been
// taken over by a file that it read.
std::optional<LineAnswer> DecodeLineAnswer(std::span<const uint8_t> bytes);

}  // namespace profd

#endif  // PROFD_DAEMON_LINES_PROTOCOL_H_
