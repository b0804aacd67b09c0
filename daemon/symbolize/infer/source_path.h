// What the path of a Rust source file says about crate and module.
#ifndef PROFD_DAEMON_SYMBOLIZE_INFER_SOURCE_PATH_H_
#define PROFD_DAEMON_SYMBOLIZE_INFER_SOURCE_PATH_H_

#include <string>
#include <string_view>
#include <vector>

namespace profd::symbolize {

// The parts of `text` between separators; none for "".
std::vector<std::string_view> SplitText(std::string_view text, std::string_view separator);

struct SourceFile {
  enum class Origin {
    kStandard,   // the standard library
    kRegistry,   // a crate with a version: its name is exact
    kWorkspace,  // a folder of the project: the crate has the folder's name, or one like it
    kUnknown,    // the path names no crate
  };
  Origin origin = Origin::kUnknown;
  std::string crate;    // with underscores; "" if the path names none
  std::string modules;  // "sync::mpsc"; "" for the crate's root
  std::string root;     // the folder that the modules are relative to, "crates/trie/src"
};

// Examples:
//   /rustc/90b3…/library/std/src/sync/mpsc.rs                        std   sync::mpsc
//   /root/.cargo/registry/src/index…/tokio-util-0.7.1/src/io/mod.rs  tokio_util  io
//   /root/.cargo/git/checkouts/revm-1f2e…/9a8b7c6/crates/evm/src/lib.rs   evm
//   crates/trie/src/node.rs                                          trie  node
// A folder does not tell the crate for sure: the crate of crates/trie may be called reth_trie.
// Hostile input: segments are made of letters, digits and underscores only.
SourceFile ParseSourcePath(std::string_view path);

// The crate that a program or library of this file name is probably built from: "librustc_driver
// -1a2b.so" gives "rustc_driver".
std::string CrateOfProgram(std::string_view file_name);

}  // namespace profd::symbolize

#endif  // PROFD_DAEMON_SYMBOLIZE_INFER_SOURCE_PATH_H_
