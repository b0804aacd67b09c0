#include "daemon/symbolize/infer/data_reader.h"

#include <algorithm>
#include <cstring>

namespace profd::symbolize {
namespace {

constexpr size_t kMaxRanges = 512;
constexpr uint64_t kBlockBytes = 16 << 10;
constexpr size_t kBlocks = 64;

}  // namespace

DataReader::DataReader(const ElfFile* elf) : elf_(elf), blocks_(kBlocks) {
  for (const Section& section : elf->sections()) {
    if ((section.flags & SHF_ALLOC) == 0 || section.Executable() ||
        (section.flags & SHF_TLS) != 0 || section.type != SHT_PROGBITS || section.size == 0 ||
        section.address > UINT64_MAX - section.size) {
      continue;
    }
    ranges_.push_back({.address = section.address,
                       .offset = section.offset,
                       .size = section.size,
                       .writable = (section.flags & SHF_WRITE) != 0});
    if (ranges_.size() == kMaxRanges) break;
  }
  std::sort(ranges_.begin(), ranges_.end(),
            [](const DataRange& a, const DataRange& b) { return a.address < b.address; });
}

const DataRange* DataReader::Find(uint64_t address, uint64_t size) const {
  auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), address,
      [](uint64_t value, const DataRange& range) { return value < range.address; });
  if (after == ranges_.begin()) return nullptr;
  const DataRange& range = *std::prev(after);
  const uint64_t inside = address - range.address;
  return inside < range.size && size <= range.size - inside ? &range : nullptr;
}

bool DataReader::Read(uint64_t address, void* out, size_t size) {
  const DataRange* range = Find(address, size);
  if (range == nullptr) return false;
  uint64_t offset = range->offset + (address - range->address);
  auto* to = static_cast<char*>(out);
  while (size > 0) {
    const Block* block = Load(offset);
    const uint64_t inside = offset % kBlockBytes;
    if (block == nullptr || inside >= block->size) return false;
    const auto count = static_cast<size_t>(std::min<uint64_t>(size, block->size - inside));
    std::memcpy(to, block->bytes.get() + inside, count);
    to += count;
    offset += count;
    size -= count;
  }
  return true;
}

const DataReader::Block* DataReader::Load(uint64_t offset) {
  const uint64_t begin = offset - offset % kBlockBytes;
  Block& block = blocks_[begin / kBlockBytes % kBlocks];
  if (block.offset == begin) return &block;
  if (block.bytes == nullptr) block.bytes = std::make_unique<char[]>(kBlockBytes);
  block.offset = UINT64_MAX;
  block.size = 0;
  // The last block of the file is shorter: `overlap` 0 makes one piece of it.
  const absl::Status status =
      elf_->ReadPieces({begin, kBlockBytes}, 0, [&](uint64_t, std::string_view bytes) {
        std::memcpy(block.bytes.get() + block.size, bytes.data(),
                    std::min<size_t>(bytes.size(), kBlockBytes - block.size));
        block.size += bytes.size();
        return block.size < kBlockBytes;
      });
  if (!status.ok() || block.size == 0) return nullptr;
  block.offset = begin;
  return &block;
}

}  // namespace profd::symbolize
