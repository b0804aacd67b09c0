// The tables of an answer: strings, mappings, functions, locations, stacks, attributes, groups,
// each entry sent once and before it is referred to.
#ifndef PROFD_DAEMON_SERVICE_TABLES_H_
#define PROFD_DAEMON_SERVICE_TABLES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "daemon/service/named_stacks.h"
#include "daemon/service/part_writer.h"

namespace profd {

// Writes entries as they are asked for. An index is that in the whole answer.
class Tables {
 public:
  // Adds the empty entries. `parts` must outlive this.
  explicit Tables(PartWriter* parts);

  uint32_t String(std::string_view text);
  uint32_t TextAttribute(std::string_view key, std::string_view text);
  uint32_t NumberAttribute(std::string_view key, int64_t number);
  uint32_t Group(const std::vector<std::string>& labels);
  // All of them, in their order: a stack's index is its number.
  void AddStacks(const NamedStacks& stacks);

 private:
  uint32_t Mapping(const NamedFrame& frame);
  // `details` may be null.
  uint32_t Function(const FrameText& text, NameSource found_by, std::string_view file,
                    const NameDetails* details);
  void AddLocation(const NamedFrame& frame);

  PartWriter* const parts_;
  absl::node_hash_map<std::string, uint32_t> strings_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, uint32_t>
      mappings_;  // file, build-id, code, headers
  struct FunctionKey {
    uint32_t name;
    uint32_t file;
    uint32_t suffix;
    std::vector<uint32_t> other_names;
    uint32_t more_names;
    FrameKind kind;
    NameSource found_by;
    bool common;
    friend bool operator==(const FunctionKey&, const FunctionKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const FunctionKey& k) {
      return H::combine(std::move(h), k.name, k.file, k.suffix, k.other_names, k.more_names, k.kind,
                        k.found_by, k.common);
    }
  };
  absl::flat_hash_map<FunctionKey, uint32_t> functions_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> texts_;   // key, text
  absl::flat_hash_map<std::pair<uint32_t, int64_t>, uint32_t> numbers_;  // key, number
  absl::flat_hash_map<std::vector<uint32_t>, uint32_t> groups_;
  uint32_t attribute_count_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_TABLES_H_
