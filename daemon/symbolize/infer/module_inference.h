// Infers crate and module of functions without symbols from the source locations that they load.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_MODULE_INFERENCE_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_MODULE_INFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/infer/channel_sides.h"
#include "daemon/symbolize/infer/code_reader.h"
#include "daemon/symbolize/infer/code_references.h"
#include "daemon/symbolize/infer/crate_map.h"
#include "daemon/symbolize/infer/crate_weights.h"
#include "daemon/symbolize/infer/locations.h"

namespace profd::symbolize {

// What an inference is based on.
enum class Evidence {
  kLocations,  // locations that the function loads itself
  kNeighbors,  // locations of the functions around it, of those that call it, or that it calls
  kStandard,   // it loads only locations in the standard library
  kCode,       // what its code does
};

// What the code of a function does, as far as it matters for waits.
enum class CodeRole {
  kUnknown,
  kFutexWait,  // waits for a futex on behalf of its caller: a condition, or a thread parks itself
  kLockSlow,   // waits for a futex, and spins before: a lock that another thread holds
  kSends,      // into a bounded channel
  kReceives,   // from one
};

struct InferredName {
  std::string path;   // "reth_trie::node_iter", or the crate alone; "" if only the role is known
  std::string crate;  // "reth_trie"
  Evidence evidence = Evidence::kLocations;
  CodeRole role = CodeRole::kUnknown;
};

// Evidence, in this order:
// - The locations that the function loads. Inlined code brings its own, so the majority decides.
//   Those of generic containers only count when there are no others.
// - The functions that call it, if all are of one crate.
// - The code around it: compilers emit code by unit, and a unit belongs to one crate.
// - The functions that it calls.
// Code of other languages has no locations, and gets no name.
//
// A call decodes the function itself and scans up to 8 others. What it learns of these is
// remembered in bounded memory. Not thread-safe.
class ModuleInference {
 public:
  // All must outlive this. `begins`: the addresses of all functions of the file, ascending. Each
  // function ends where the next one begins.
  ModuleInference(const ElfFile* elf, const LocationTable* locations, const CrateMap* map,
                  std::span<const uint64_t> begins);

  // The name of the function that contains `address`. None if there is not enough evidence.
  std::optional<InferredName> Infer(uint64_t address);

 private:
  using Scores = absl::flat_hash_map<uint32_t, double>;  // by crate

  const Files& FilesOf(size_t function);
  // Adds `weight`, divided among the crates of the files. False if they have none.
  bool AddShares(const Files& files, double weight, Scores* scores) const;
  std::optional<InferredName> InferPath(size_t function, const CodeReferences& references);
  size_t OwnerOf(size_t function, std::span<const uint64_t> jumps);
  InferredName NameOf(const Files& files, uint32_t crate, Evidence evidence) const;
  std::optional<InferredName> OfStandard(const Files& files) const;
  CodeRole RoleInChannel(size_t function);

  const LocationTable* const locations_;
  const CrateMap* const map_;
  const CrateWeights weights_;
  const ChannelSides channels_;
  CodeReader code_;
  absl::flat_hash_map<size_t, Files> remembered_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_MODULE_INFERENCE_H_
