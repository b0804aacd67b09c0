// Names virtual functions of stripped C++ programs by the classes whose tables have them.
//
// A class with virtual functions has a table (Itanium C++ ABI, section 2.5):
//   word -2  offset to the top of the object: 0 in the table of the class itself, negative in the
//            further ones of its bases
//   word -1  its type description (std::type_info)
//   word  0  its virtual functions, in the order of their declarations, those of the base first
// A type description (section 2.9.5):
//   word  0  the table of one of three classes of the runtime, __cxxabiv1::__*class_type_info
//   word  1  the mangled name of the type
//   word  2  with __si_class_type_info: the description of its base
//            with __vmi_class_type_info: flags, and in the upper half the number of bases; two
//            words for each base follow
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_CLASS_TABLES_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_CLASS_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/elf/elf_file.h"
#include "daemon/symbolize/infer/pointer_table.h"

namespace profd::symbolize {

struct VirtualFunction {
  std::string type;     // mangled, as in the type's description: "N7rocksdb15BlockBasedTableE"
  uint32_t number = 0;  // in the table, from 0 on
};

// Looks for the tables that have certain functions. A function that a class inherits is in its
// table too, so that of all classes that have it, the one that the others derive from names it. If
// there is none, it is their nearest common base. Functions of unrelated classes, which the linker
// folded, get no name. Not thread-safe.
class ClassTables {
 public:
  // `elf` must outlive this.
  explicit ClassTables(const ElfFile* elf) : elf_(elf), pointers_(elf) {}

  // For each of `functions`: addresses at which functions begin, ascending, each once. Bounded in
  // time and memory by what PointerTable allows. Hostile input. To be called once.
  std::vector<std::optional<VirtualFunction>> Find(std::span<const uint64_t> functions);

 private:
  using Type = uint64_t;  // address of its description

  struct TypeInfo {
    bool valid = false;
    std::string name;
    std::vector<Type> bases;
  };
  struct Entry {
    Type type;
    uint32_t number;
  };

  bool IsCode(uint64_t address) const { return elf_->CodeAt(address).has_value(); }
  // The class and number of a function that a table has at `place`.
  std::optional<Entry> EntryAt(uint64_t place);
  const TypeInfo& Describe(Type type);
  TypeInfo ReadType(Type type);
  // Whether the first word of a description is what it must be, and which of the three it is.
  enum class Kind { kNone, kPlain, kSingle, kMultiple };
  Kind KindOf(Type type);
  // The type and all that it derives from, the nearest first.
  std::vector<Type> Ancestors(Type type);
  std::optional<VirtualFunction> Choose(std::span<const Entry> entries);

  const ElfFile* const elf_;
  PointerTable pointers_;
  absl::flat_hash_map<Type, TypeInfo> types_;
};

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_CLASS_TABLES_H_
