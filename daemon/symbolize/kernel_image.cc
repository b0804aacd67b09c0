#include "daemon/symbolize/kernel_image.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "daemon/elf/build_id.h"

namespace profd::symbolize {
namespace {

std::optional<uint64_t> Number(absl::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

KernelImage::KernelImage(KernelFiles files) : files_(std::move(files)) {}

void KernelImage::Update(uint64_t text_begin, uint64_t text_end) {
  parts_.clear();
  if (text_begin != 0 && text_begin < text_end) {
    parts_.push_back({.module = kKernelName, .begin = text_begin, .end = text_end, .build_id = {}});
  }
  ReadModules();
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
}

// Lines as "ext4 786432 1 - Live 0xffffffffc0321000": name, bytes, users, by whom, state, address.
void KernelImage::ReadModules() {
  std::ifstream modules(files_.modules);
  for (std::string line; std::getline(modules, line);) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (words.size() < 6 || !absl::StartsWith(words[5], "0x")) continue;
    const auto size = Number(words[1], 10);
    const auto begin = Number(words[5].substr(2), 16);
    // Addresses are 0 for those who may not see them.
    if (!size || !begin || *begin == 0 || *size > UINT64_MAX - *begin) continue;
    parts_.push_back({.module = absl::StrCat("[", words[0], "]"),
                      .begin = *begin,
                      .end = *begin + *size,
                      .build_id = {}});
  }
}

std::optional<KernelPlace> KernelImage::Find(uint64_t address) {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), address,
                       [](uint64_t wanted, const Part& part) { return wanted < part.begin; });
  if (after == parts_.begin()) return std::nullopt;
  Part& part = *std::prev(after);
  if (address >= part.end) return std::nullopt;
  if (!part.build_id) {
    const std::string name = part.module.substr(1, part.module.size() - 2);
    part.build_id = BuildIdOfNotesFile(
        part.module == kKernelName
            ? files_.notes
            : absl::StrCat(files_.modules_folder, "/", name, "/notes/.note.gnu.build-id"));
  }
  return KernelPlace{part.module, *part.build_id, address - part.begin};
}

std::string ReadBootId(const KernelFiles& files) {
  std::string id;
  std::ifstream file(files.boot_id);
  std::getline(file, id);
  return id;
}

BootIdentity ReadBootIdentity(const KernelFiles& files) {
  BootIdentity boot = {.boot_id = ReadBootId(files), .kernel_build_id = {}};
  boot.kernel_build_id = BuildIdOfNotesFile(files.notes);
  // "ffffffff81000000 T _text", among the first lines: they are in order.
  std::ifstream symbols(files.symbols);
  for (std::string line; std::getline(symbols, line);) {
    if (!line.ends_with(" T _text")) continue;
    boot.kernel_text = Number(line.substr(0, line.find(' ')), 16).value_or(0);
    break;
  }
  return boot;
}

}  // namespace profd::symbolize
