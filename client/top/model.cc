#include "client/top/model.h"

#include <algorithm>

namespace profctl {
namespace {

// Longer filters are of no use, and would not fit any screen.
constexpr size_t kLongestFilter = 200;

// The element after or before the one for which `is` holds, around the end.
template <typename Infos, typename Is>
const auto& Next(const Infos& infos, const Is& is, bool forward) {
  const auto at = static_cast<size_t>(std::find_if(infos.begin(), infos.end(), is) - infos.begin());
  return infos[(at + (forward ? 1 : infos.size() - 1)) % infos.size()];
}

void NextGrouping(bool forward, TopState* state) {
  state->wanted.grouping =
      Next(
          AllGroupings(),
          [&](const GroupingInfo& info) { return info.grouping == state->wanted.grouping; },
          forward)
          .grouping;
  state->selected.clear();
  state->place = 0;
}

void NextSort(bool forward, TopState* state) {
  state->wanted.sort =
      Next(
          AllTopSorts(), [&](const TopSortInfo& info) { return info.sort == state->wanted.sort; },
          forward)
          .sort;
}

void RemoveLastCharacter(std::string* text) {
  while (!text->empty()) {
    const auto byte = static_cast<unsigned char>(text->back());
    text->pop_back();
    if ((byte & 0xc0) != 0x80) break;
  }
}

void Type(const Key& key, TopState* state) {
  switch (key.code) {
    case Key::Code::kEnter:
      state->typing = false;
      break;
    case Key::Code::kEscape:
      state->typing = false;
      state->wanted.filter = state->typed;  // what it was before
      break;
    case Key::Code::kBackspace:
      RemoveLastCharacter(&state->wanted.filter);
      break;
    case Key::Code::kCharacter:
      if (key.text == "\x15") {  // Ctrl-U
        state->wanted.filter.clear();
      } else if (static_cast<unsigned char>(key.text[0]) >= 0x20 &&
                 state->wanted.filter.size() < kLongestFilter) {
        state->wanted.filter += key.text;
      }
      break;
    default:
      break;
  }
}

// Moves a place among `count` by a key. Whether the key does that.
bool Move(const Key& key, size_t count, size_t room, size_t* place) {
  const size_t last = count == 0 ? 0 : count - 1;
  const bool is_text = key.code == Key::Code::kCharacter;
  if (key.code == Key::Code::kUp || (is_text && key.text == "k")) {
    *place -= std::min<size_t>(*place, 1);
  } else if (key.code == Key::Code::kDown || (is_text && key.text == "j")) {
    *place = std::min(*place + 1, last);
  } else if (key.code == Key::Code::kPageUp) {
    *place -= std::min(*place, room);
  } else if (key.code == Key::Code::kPageDown) {
    *place = std::min(*place + room, last);
  } else if (key.code == Key::Code::kHome) {
    *place = 0;
  } else if (key.code == Key::Code::kEnd) {
    *place = last;
  } else {
    return false;
  }
  return true;
}

bool IsBack(const Key& key) {
  return key.code == Key::Code::kEscape || key.code == Key::Code::kBackspace ||
         key.code == Key::Code::kLeft;
}

void PressInTable(const Key& key, const std::vector<TopRow>& rows, size_t room, TopState* state) {
  if (Move(key, rows.size(), room, &state->place)) {
    if (state->place < rows.size()) state->selected = rows[state->place].key;
  } else if (key.code == Key::Code::kEnter && state->place < rows.size()) {
    state->opened = rows[state->place].key;
    state->page = TopState::Page::kDetails;
    state->scroll = 0;
  } else if (key.code == Key::Code::kEscape) {
    state->wanted.filter.clear();
  } else if (key.text == "/") {
    state->typing = true;
    state->typed = state->wanted.filter;
  } else if (key.text == "g" || key.text == "G") {
    NextGrouping(key.text == "g", state);
  } else if (key.text == "s" || key.text == "S") {
    NextSort(key.text == "s", state);
  } else if (key.text == "r") {
    state->wanted.reversed = !state->wanted.reversed;
  } else if (key.text == "i") {
    state->wanted.hide_idle = !state->wanted.hide_idle;
  }
}

}  // namespace

void Follow(const std::vector<TopRow>& rows, size_t room, TopState* state) {
  const auto it = std::find_if(rows.begin(), rows.end(),
                               [&](const TopRow& row) { return row.key == state->selected; });
  if (it != rows.end()) state->place = static_cast<size_t>(it - rows.begin());
  state->place = rows.empty() ? 0 : std::min(state->place, rows.size() - 1);
  room = std::max<size_t>(room, 1);
  state->first = std::min(state->first, state->place);
  if (state->place >= state->first + room) state->first = state->place - room + 1;
  // No empty lines below the last row while there are rows above.
  if (state->first + room > rows.size()) {
    state->first = rows.size() > room ? rows.size() - room : 0;
  }
}

void Press(const Key& key, const std::vector<TopRow>& rows, const Extent& extent, TopState* state) {
  if (state->typing) return Type(key, state);
  const bool is_text = key.code == Key::Code::kCharacter;
  if (is_text && (key.text == "q" || key.text == "Q")) {
    state->quit = true;
  } else if (is_text && (key.text == " " || key.text == "p")) {
    state->paused = !state->paused;
  } else if (is_text && key.text == "u") {
    state->refresh = true;
  } else if (is_text && (key.text == "?" || key.text == "h")) {
    const bool open = state->page != TopState::Page::kHelp;
    state->page = open                    ? TopState::Page::kHelp
                  : state->opened.empty() ? TopState::Page::kTable
                                          : TopState::Page::kDetails;
    state->scroll = 0;
  } else if (state->page == TopState::Page::kTable) {
    PressInTable(key, rows, extent.room, state);
  } else if (IsBack(key)) {
    const bool from_help = state->page == TopState::Page::kHelp;
    if (!from_help) state->opened.clear();
    state->page = state->opened.empty() ? TopState::Page::kTable : TopState::Page::kDetails;
    state->scroll = 0;
  } else {
    const size_t below = extent.lines > extent.room ? extent.lines - extent.room : 0;
    Move(key, below + 1, extent.room, &state->scroll);
  }
}

}  // namespace profctl
