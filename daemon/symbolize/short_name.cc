#include "daemon/symbolize/short_name.h"

#include <array>

#include "absl/strings/ascii.h"

namespace profd::symbolize {
namespace {

constexpr std::string_view kOperator = "operator";
// Those with angle brackets, the longest first.
constexpr std::array<std::string_view, 11> kAngleOperators = {
    "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"};
constexpr std::string_view kImpl = "impl ";
constexpr std::string_view kTurbofish = "::";
constexpr std::string_view kShortened = "<...>";

bool IsIdentifier(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return absl::ascii_isalnum(byte) || c == '_' || c == '$' || byte >= 0x80;
}

// Reads a name from left to right, once.
class Shortener {
 public:
  explicit Shortener(std::string_view name) : name_(name) {}

  std::string Run() {
    while (at_ < name_.size()) Step();
    return dropping_ ? std::string(name_) : out_;
  }

 private:
  void Step() {
    const char c = name_[at_];
    if (CopyOperator()) return;
    if (c == '<') {
      Open();
    } else if (c == '>' && !Before("-") && Top() == '<') {
      Close();
    } else {
      if (c == '(' || c == '[' || c == '{') open_.push_back(c);
      if ((c == ')' && Top() == '(') || (c == ']' && Top() == '[') || (c == '}' && Top() == '{')) {
        open_.pop_back();
      }
      Put(c);
    }
    ++at_;
  }

  // In "operator<" the bracket is part of the name.
  bool CopyOperator() {
    if (!name_.substr(at_).starts_with(kOperator) || (at_ > 0 && IsIdentifier(name_[at_ - 1]))) {
      return false;
    }
    const std::string_view rest = name_.substr(at_ + kOperator.size());
    for (const std::string_view symbol : kAngleOperators) {
      if (!rest.starts_with(symbol)) continue;
      for (const char c : name_.substr(at_, kOperator.size() + symbol.size())) Put(c);
      at_ += kOperator.size() + symbol.size();
      operator_end_ = at_;
      return true;
    }
    return false;
  }

  void Open() {
    const bool argument =
        at_ > 0 && (IsIdentifier(name_[at_ - 1]) || at_ == operator_end_ || Before("operator()"));
    const bool turbofish = Before(kTurbofish) && !name_.substr(at_ + 1).starts_with(kImpl);
    const bool after_operator = Before(" ") && at_ > 0 && at_ - 1 == operator_end_;
    if (!dropping_ && (argument || turbofish || after_operator)) {
      if (turbofish) out_.resize(out_.size() - kTurbofish.size());
      out_ += kShortened;
      dropping_ = true;
      dropped_at_ = open_.size();
    } else {
      Put('<');
    }
    open_.push_back('<');
  }

  void Close() {
    open_.pop_back();
    if (dropping_ && open_.size() == dropped_at_) {
      dropping_ = false;
    } else {
      Put('>');
    }
  }

  void Put(char c) {
    if (!dropping_) out_.push_back(c);
  }
  char Top() const { return open_.empty() ? '\0' : open_.back(); }
  bool Before(std::string_view text) const { return name_.substr(0, at_).ends_with(text); }

  const std::string_view name_;
  size_t at_ = 0;
  size_t operator_end_ = 0;  // of the last operator with angle brackets
  std::string out_;
  std::string open_;  // brackets that are open
  bool dropping_ = false;
  size_t dropped_at_ = 0;  // brackets that were open before the one whose contents are dropped
};

}  // namespace

std::string ShortName(std::string_view name) { return Shortener(name).Run(); }

}  // namespace profd::symbolize
