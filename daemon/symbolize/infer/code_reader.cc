#include "daemon/symbolize/infer/code_reader.h"

#include <algorithm>

namespace profd::symbolize {
namespace {

// Longer functions are machine-made tables, or lies.
constexpr uint64_t kMaxCode = 256 << 10;
constexpr uint64_t kReadAhead = 16 << 10;

}  // namespace

uint64_t CodeReader::SizeOf(size_t function) const {
  if (function + 1 == begins_.size()) return kMaxCode;
  return std::min(begins_[function + 1] - begins_[function], kMaxCode);
}

std::optional<size_t> CodeReader::FunctionAt(uint64_t address) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), address);
  if (after == begins_.begin()) return std::nullopt;
  const auto function = static_cast<size_t>(after - begins_.begin() - 1);
  return address - begins_[function] < SizeOf(function) ? std::optional(function) : std::nullopt;
}

std::optional<size_t> CodeReader::FunctionFrom(uint64_t address) const {
  const auto at = std::lower_bound(begins_.begin(), begins_.end(), address);
  if (at == begins_.end() || *at != address) return std::nullopt;
  return static_cast<size_t>(at - begins_.begin());
}

std::span<const uint8_t> CodeReader::Code(size_t function) {
  const uint64_t begin = begins_[function];
  const uint64_t size = SizeOf(function);
  const bool has =
      begin >= at_ && begin - at_ <= bytes_.size() && size <= bytes_.size() - (begin - at_);
  if (!has) {
    bytes_.clear();
    at_ = begin;
    const std::optional<FileRange> file = elf_->CodeAt(begin);
    if (!file) return {};
    bytes_.resize(static_cast<size_t>(std::min(file->size, std::max(size, kReadAhead))));
    if (!elf_->Read(file->offset, bytes_.data(), bytes_.size()).ok()) {
      bytes_.clear();
      return {};
    }
  }
  const std::span<const uint8_t> rest = std::span(bytes_).subspan(begin - at_);
  return rest.first(static_cast<size_t>(std::min<uint64_t>(size, rest.size())));
}

}  // namespace profd::symbolize
