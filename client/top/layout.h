// Lays out `profctl top`: state and rows in, styled lines of a screen out.
#ifndef PROFD_CLIENT_TOP_LAYOUT_H_
#define PROFD_CLIENT_TOP_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/top/model.h"
#include "client/top/rows.h"
#include "client/top/snapshot.h"

namespace profctl {

enum class Style {
  kPlain,
  kTitle,
  kHeading,
  kSelected,
  kDim,
  kOnCpu,
  kRunQueue,
  kLock,
  kDisk,
  kWait,  // other waits
  kError,
  kKey
};

struct Span {
  std::string text;
  Style style = Style::kPlain;
};
using StyledLine = std::vector<Span>;

struct ScreenSize {
  size_t columns = 80;
  size_t rows = 24;
};

// What there is to show. What it points to must outlive it.
struct TopView {
  std::string server;
  const Snapshot* snapshot = nullptr;  // null: no answer yet
  const TopRows* rows = nullptr;       // of the snapshot; null without one
  // Why there is no newer answer, one line; empty: there is.
  std::string error;
  // How old the snapshot is, or for how long an answer has been awaited. ns
  int64_t age_ns = 0;
  int64_t interval_ns = 0;
};

struct TopScreen {
  std::vector<StyledLine> lines;  // as many as the screen has at most, each as wide at most
  Extent extent;
  // Where a filter is typed: the column in the last line.
  std::optional<size_t> cursor;
};

// Texts are printable UTF-8. `state` is brought up to date with the size: what is selected is on
// the screen.
TopScreen Compose(const TopView& view, ScreenSize size, TopState* state);

// The same for output that is no screen: a page without limits, selection or keys, each line ended.
std::string TopText(const TopView& view, const RowsWanted& wanted, bool colour);

}  // namespace profctl

#endif  // PROFD_CLIENT_TOP_LAYOUT_H_
