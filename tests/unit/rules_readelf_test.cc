// Compares the rules of real files, row by row, with what binutils' readelf makes of the same
// unwind information. PROFD_TEST_ELF may name more files, separated by colons.
#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/base/fd.h"
#include "daemon/unwind/rules.h"
#include "gtest/gtest.h"
#include "tests/support/places.h"

namespace profd {
namespace {

struct PipeCloser {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

bool HasReadelf() { return std::system("readelf --version >/dev/null 2>&1") == 0; }

// A file's program headers, read without the code under test.
class Layout {
 public:
  explicit Layout(std::span<const uint8_t> file) {
    std::memcpy(&header_, file.data(), sizeof(header_));
    segments_.resize(header_.e_phnum);
    std::memcpy(segments_.data(), file.data() + header_.e_phoff,
                segments_.size() * sizeof(segments_[0]));
  }

  std::optional<uint64_t> Offset(uint64_t begin, uint64_t end) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 && begin >= segment.p_vaddr &&
          end <= segment.p_vaddr + segment.p_filesz) {
        return begin - segment.p_vaddr + segment.p_offset;
      }
    }
    return std::nullopt;
  }

  uint64_t entry() const { return header_.e_entry; }

 private:
  Elf64_Ehdr header_;
  std::vector<Elf64_Phdr> segments_;
};

struct ExpectedRow {
  uint64_t begin = 0;  // addresses
  uint64_t end = 0;
  std::optional<uint32_t> rule;  // empty: readelf does not print the expression
};

struct ExpectedFunction {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::vector<ExpectedRow> rows;
};

using Columns = std::map<std::string, std::string>;

std::string Column(const Columns& row, const std::string& name) {
  const auto found = row.find(name);
  return found == row.end() ? "u" : found->second;
}

std::optional<uint32_t> ExpectedRule(const Columns& row) {
  constexpr uint32_t kUnsupported = PROFD_RULE_PACK(PROFD_RULE_UNSUPPORTED, 0, 0);
  const std::string cfa = Column(row, "CFA");
  const std::string rbp = Column(row, "rbp");
  if (Column(row, "ra") == "u") return PROFD_RULE_PACK(PROFD_RULE_END, 0, 0);
  if (cfa == "exp" || rbp == "exp") return std::nullopt;
  if (Column(row, "ra") != "c-8" || Column(row, "rsp") != "u") return kUnsupported;
  int64_t rbp_offset = 0;
  if (rbp != "u" && rbp != "s") {
    if (rbp[0] != 'c' || !absl::SimpleAtoi(rbp.substr(1), &rbp_offset) || rbp_offset % 8 != 0 ||
        rbp_offset == 0 || rbp_offset < -2048 * 8 || rbp_offset >= 2048 * 8) {
      return kUnsupported;
    }
  }
  const std::string reg = cfa.substr(0, 3);
  int64_t offset = 0;
  if ((reg != "rsp" && reg != "rbp") || !absl::SimpleAtoi(cfa.substr(3), &offset) ||
      offset % 8 != 0 || offset < -32768 * 8 || offset >= 32768 * 8) {
    return kUnsupported;
  }
  return PROFD_RULE_PACK(reg == "rsp" ? PROFD_RULE_RSP : PROFD_RULE_RBP, offset / 8,
                         rbp_offset / 8);
}

// Reads the output of readelf --debug-dump=frames-interp.
class ReadelfParser {
 public:
  std::vector<ExpectedFunction> Parse(const std::string& path) {
    const std::string command =
        absl::StrCat("readelf --debug-dump=frames-interp '", path, "' 2>/dev/null");
    std::unique_ptr<FILE, PipeCloser> pipe(popen(command.c_str(), "r"));
    std::vector<char> line(1 << 16);
    while (pipe != nullptr && std::fgets(line.data(), static_cast<int>(line.size()), pipe.get())) {
      ParseLine(line.data());
    }
    Finish();
    return std::move(functions_);
  }

 private:
  void ParseLine(const std::string& line) {
    if (line.starts_with("Contents of the ")) {
      Finish();
      in_frames_ = line.find(" .eh_frame section") != std::string::npos;
    }
    if (!in_frames_) return;
    std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \n"), absl::SkipWhitespace());
    if (words.size() >= 4 && words[3] == "CIE") {
      Finish();
      common_ = words[0];
      commons_[common_] = Columns();
      columns_.clear();
    } else if (words.size() >= 6 && words[3] == "FDE") {
      Finish();
      common_ = words[4].substr(std::strlen("cie="));
      const std::vector<std::string> range =
          absl::StrSplit(words[5].substr(std::strlen("pc=")), "..");
      function_.emplace();
      function_->begin = std::strtoull(range[0].c_str(), nullptr, 16);
      function_->end = std::strtoull(range[1].c_str(), nullptr, 16);
      columns_.clear();
    } else if (!words.empty() && words[0] == "LOC") {
      columns_ = words;
      return;
    }
    // A register's rule is printed as "r9 (r9)": two words.
    std::erase_if(words, [](const std::string& word) { return word[0] == '('; });
    if (!columns_.empty() && words.size() == columns_.size()) {
      Columns row;
      for (size_t i = 1; i < words.size(); ++i) row[columns_[i]] = words[i];
      if (function_) {
        AddRow(std::strtoull(words[0].c_str(), nullptr, 16), row);
      } else {
        commons_[common_] = row;
      }
    }
  }

  void AddRow(uint64_t begin, const Columns& row) {
    if (!function_->rows.empty()) function_->rows.back().end = begin;
    function_->rows.push_back({begin, function_->end, ExpectedRule(row)});
  }

  void Finish() {
    if (!function_) return;
    if (function_->rows.empty()) AddRow(function_->begin, commons_[common_]);
    if (function_->begin < function_->end) functions_.push_back(*function_);
    function_.reset();
  }

  bool in_frames_ = false;
  std::string common_;
  std::map<std::string, Columns> commons_;
  std::vector<std::string> columns_;
  std::optional<ExpectedFunction> function_;
  std::vector<ExpectedFunction> functions_;
};

absl::StatusOr<MappedFile> MapPath(const std::string& path) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenReadOnly(path));
  return MappedFile::Map(fd.get());
}

void CompareFile(const std::string& path) {
  SCOPED_TRACE(path);
  const absl::StatusOr<MappedFile> file = MapPath(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<RuleTable> table = CompileRules(file->bytes());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rejected_functions, 0u);

  const Layout layout(file->bytes());
  std::vector<ExpectedFunction> functions = ReadelfParser().Parse(path);
  std::stable_sort(functions.begin(), functions.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  uint64_t covered = 0;
  uint64_t rows = 0;
  uint64_t mismatches = 0;
  std::set<uint64_t> borders;  // file offsets where a rule may change
  for (const ExpectedFunction& function : functions) {
    const std::optional<uint64_t> offset = layout.Offset(function.begin, function.end);
    if (!offset || function.begin < covered) continue;
    covered = function.end;
    borders.insert(*offset);
    borders.insert(*offset + (function.end - function.begin));
    for (const ExpectedRow& row : function.rows) {
      if (row.begin >= row.end) continue;
      ++rows;
      const uint64_t begin = *offset + (row.begin - function.begin);
      const uint64_t end = begin + (row.end - row.begin);
      borders.insert(begin);
      for (const uint64_t at : {begin, end - 1}) {
        const uint32_t rule = FindRule(*table, static_cast<uint32_t>(at));
        const bool root =
            function.begin == layout.entry() && PROFD_RULE_KIND(rule) == PROFD_RULE_END;
        const bool same =
            row.rule ? rule == *row.rule || root : PROFD_RULE_KIND(rule) != PROFD_RULE_NONE;
        if (!same && ++mismatches <= 10) {
          ADD_FAILURE() << std::hex << "offset " << at << ": rule " << rule << ", readelf says "
                        << row.rule.value_or(0);
        }
      }
    }
  }
  EXPECT_EQ(mismatches, 0u);
  EXPECT_GT(rows, 0u);
  uint64_t strangers = 0;
  for (const profd_rule& row : table->rows) {
    const unsigned kind = PROFD_RULE_KIND(row.rule);
    const bool root = kind == PROFD_RULE_END ||
                      FindRule(*table, row.offset - 1) == PROFD_RULE_PACK(PROFD_RULE_END, 0, 0);
    if (!root && borders.count(row.offset) == 0) ++strangers;
  }
  EXPECT_EQ(strangers, 0u) << "rows where readelf sees no change of rules";
  std::printf("%s: %zu functions, %llu rows of readelf, %zu rows of ours, %u unsupported\n",
              path.c_str(), functions.size(), static_cast<unsigned long long>(rows),
              table->rows.size(), table->unsupported_rows);
}

std::string PathOf(const void* symbol) {
  Dl_info info = {};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

class RulesReadelfTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(HasReadelf()) << "readelf (binutils) is not installed"; }
};

TEST_F(RulesReadelfTest, Libc) {
  const std::string path = PathOf(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
  ASSERT_NE(path.find(".so"), std::string::npos) << path;
  CompareFile(path);
}

TEST_F(RulesReadelfTest, CxxLibrary) {
  const std::string path = PathOf(dlsym(RTLD_DEFAULT, "_ZNSt8ios_base4InitC1Ev"));
  ASSERT_NE(path.find("stdc++"), std::string::npos) << path;
  CompareFile(path);
}

// Small ones: this program has 188 MB, and readelf's rows for it take 20 s to read.
TEST_F(RulesReadelfTest, ProgramsOfThisCompiler) {
  for (const char* name : {"alloc_glibc", "told"}) {
    CompareFile(test::InBuild(name));
  }
}

TEST_F(RulesReadelfTest, ShellAndNamedFiles) {
  std::vector<std::string> paths = {"/bin/sh"};
  if (const char* named = std::getenv("PROFD_TEST_ELF")) {
    for (const auto path : absl::StrSplit(named, ':')) paths.emplace_back(path);
  }
  for (const std::string& path : paths) CompareFile(path);
}

}  // namespace
}  // namespace profd
