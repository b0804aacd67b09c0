#include "daemon/lines/protocol.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "daemon/unwind/byte_reader.h"

namespace profd {
namespace {

constexpr uint32_t kRequestMagic = 0x5145'4e4c;
constexpr uint32_t kAnswerMagic = 0x5341'4e4c;
constexpr uint32_t kQuestionMagic = 0x5546'4e4c;
constexpr uint32_t kLast = 1;
constexpr uint32_t kUnusable = 2;

struct RequestHeader {
  uint32_t magic;
  uint32_t count;
  uint64_t id;
  uint64_t file;
};

struct AnswerHeader {
  uint32_t magic;
  uint32_t count;
  uint64_t id;
  uint32_t flags;
  uint32_t zero;
};

struct QuestionHeader {
  uint32_t magic;
  uint16_t kind;
  uint16_t name_size;
  uint64_t id;
  uint64_t build_id_size;
};

struct LineHeader {
  uint32_t line;
  uint16_t function_size;
  uint16_t file_size;
};

template <typename T>
void Append(std::vector<uint8_t>& bytes, const T& value) {
  const auto* begin = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof(value));
}

std::string_view Cut(std::string_view text, size_t limit) {
  return text.substr(0, std::min(text.size(), limit));
}

std::string ReadText(ByteReader& reader, size_t size) {
  const std::span<const uint8_t> bytes = reader.ReadBytes(size);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool ReadChain(ByteReader& reader, LineChain* chain) {
  const size_t depth = reader.Read<uint16_t>();
  if (depth > kMaxChain) return false;
  for (size_t i = 0; i < depth && reader.ok(); ++i) {
    const auto header = reader.Read<LineHeader>();
    if (header.function_size > kMaxFunctionText || header.file_size > kMaxFileText) return false;
    SourceLine& line = chain->emplace_back();
    line.line = header.line;
    line.function = ReadText(reader, header.function_size);
    line.file = ReadText(reader, header.file_size);
  }
  return reader.ok();
}

}  // namespace

std::vector<uint8_t> EncodeLineRequest(const LineRequest& request) {
  const size_t count = std::min(request.addresses.size(), kMaxLineAddresses);
  std::vector<uint8_t> bytes;
  Append(bytes, RequestHeader{.magic = kRequestMagic,
                              .count = static_cast<uint32_t>(count),
                              .id = request.id,
                              .file = request.file});
  for (size_t i = 0; i < count; ++i) Append(bytes, request.addresses[i]);
  return bytes;
}

std::optional<LineRequest> DecodeLineRequest(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  const auto header = reader.Read<RequestHeader>();
  if (!reader.ok() || header.magic != kRequestMagic || header.count > kMaxLineAddresses ||
      reader.remaining() != header.count * sizeof(uint64_t)) {
    return std::nullopt;
  }
  LineRequest request{.id = header.id, .file = header.file, .addresses = {}};
  for (uint32_t i = 0; i < header.count; ++i) request.addresses.push_back(reader.Read<uint64_t>());
  return request;
}

std::vector<uint8_t> EncodeFileQuestion(const FileQuestion& question) {
  const std::string_view name = Cut(question.name, kMaxFileName);
  const std::string_view build_id = Cut(question.build_id, kMaxBuildId);
  std::vector<uint8_t> bytes;
  Append(bytes, QuestionHeader{.magic = kQuestionMagic,
                               .kind = static_cast<uint16_t>(question.kind),
                               .name_size = static_cast<uint16_t>(name.size()),
                               .id = question.id,
                               .build_id_size = build_id.size()});
  bytes.insert(bytes.end(), name.begin(), name.end());
  bytes.insert(bytes.end(), build_id.begin(), build_id.end());
  return bytes;
}

std::optional<FileQuestion> DecodeFileQuestion(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  const auto header = reader.Read<QuestionHeader>();
  if (!reader.ok() || header.magic != kQuestionMagic || header.name_size > kMaxFileName ||
      header.build_id_size > kMaxBuildId ||
      reader.remaining() != header.name_size + header.build_id_size) {
    return std::nullopt;
  }
  FileQuestion question{.id = header.id, .kind = {}, .name = {}, .build_id = {}};
  switch (header.kind) {
    case static_cast<uint16_t>(FileQuestion::Kind::kSplit):
    case static_cast<uint16_t>(FileQuestion::Kind::kSupplementary):
      question.kind = static_cast<FileQuestion::Kind>(header.kind);
      break;
    default:
      return std::nullopt;
  }
  question.name = ReadText(reader, header.name_size);
  question.build_id = ReadText(reader, header.build_id_size);
  // The name becomes a path, which would end at a NUL.
  if (question.name.find('\0') != std::string::npos) return std::nullopt;
  if (question.build_id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  return question;
}

void LineAnswerWriter::Clear() {
  count_ = 0;
  bytes_.assign(sizeof(AnswerHeader), 0);
}

void LineAnswerWriter::Add(uint64_t address, const LineChain& chain) {
  const size_t depth = std::min(chain.size(), kMaxChain);
  Append(bytes_, address);
  Append(bytes_, static_cast<uint16_t>(depth));
  for (size_t i = 0; i < depth; ++i) {
    const std::string_view function = Cut(chain[i].function, kMaxFunctionText);
    const std::string_view file = Cut(chain[i].file, kMaxFileText);
    Append(bytes_, LineHeader{.line = chain[i].line,
                              .function_size = static_cast<uint16_t>(function.size()),
                              .file_size = static_cast<uint16_t>(file.size())});
    bytes_.insert(bytes_.end(), function.begin(), function.end());
    bytes_.insert(bytes_.end(), file.begin(), file.end());
  }
  ++count_;
}

std::vector<uint8_t> LineAnswerWriter::Take(bool last, bool unusable) {
  const AnswerHeader header = {.magic = kAnswerMagic,
                               .count = count_,
                               .id = id_,
                               .flags = (last ? kLast : 0) | (unusable ? kUnusable : 0),
                               .zero = 0};
  std::memcpy(bytes_.data(), &header, sizeof(header));
  std::vector<uint8_t> bytes = std::move(bytes_);
  Clear();
  return bytes;
}

std::optional<LineAnswer> DecodeLineAnswer(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  const auto header = reader.Read<AnswerHeader>();
  if (!reader.ok() || header.magic != kAnswerMagic || header.count > kMaxLineAddresses) {
    return std::nullopt;
  }
  LineAnswer answer{.id = header.id,
                    .last = (header.flags & kLast) != 0,
                    .unusable = (header.flags & kUnusable) != 0,
                    .chains = {}};
  for (uint32_t i = 0; i < header.count; ++i) {
    auto& [address, chain] = answer.chains.emplace_back();
    address = reader.Read<uint64_t>();
    if (!ReadChain(reader, &chain)) return std::nullopt;
  }
  if (reader.remaining() != 0) return std::nullopt;
  return answer;
}

}  // namespace profd
