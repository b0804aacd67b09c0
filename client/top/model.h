// The state of `profctl top`, and what keys do to it.
#ifndef PROFD_CLIENT_TOP_MODEL_H_
#define PROFD_CLIENT_TOP_MODEL_H_

#include <cstddef>
#include <string>
#include <vector>

#include "client/top/rows.h"

namespace profctl {

struct Key {
  enum class Code {
    kCharacter,
    kUp,
    kDown,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kLeft,
    kEnter,
    kEscape,
    kBackspace
  };
  Code code = Code::kCharacter;
  std::string text = {};  // of a character: UTF-8
};

struct TopState {
  enum class Page { kTable, kDetails, kHelp };

  RowsWanted wanted;
  Page page = Page::kTable;
  // The selected row. It is followed from round to round; if it is gone, its place is kept.
  std::string selected;
  size_t place = 0;
  size_t first = 0;    // row on the screen
  std::string opened;  // the key of the row whose details are shown
  size_t scroll = 0;   // first line on the screen, of details and help
  bool paused = false;
  bool typing = false;  // a filter
  std::string typed;
  // Wishes, which whoever fulfils them clears.
  bool quit = false;
  bool refresh = false;
};

// Finds the selected row, and scrolls so that it is on a screen with room for `room` rows.
void Follow(const std::vector<TopRow>& rows, size_t room, TopState* state);

// What the screen shows of a page that may be longer.
struct Extent {
  size_t room = 1;   // lines on the screen
  size_t lines = 0;  // of the page
};

// What a key does. `rows` are those of the table. The caller calls Follow before it draws.
void Press(const Key& key, const std::vector<TopRow>& rows, const Extent& extent, TopState* state);

}  // namespace profctl

#endif  // PROFD_CLIENT_TOP_MODEL_H_
