#include "client/answer/name_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/text/text.h"

namespace profctl {
namespace {

// A few per cent without a symbol are in the start of every program.
constexpr double kUnnamedShare = 0.03;

}  // namespace

std::string_view NameSourceText(profd::v1::NameSource source) {
  switch (source) {
    case profd::v1::NAME_SOURCE_NONE:
      return "no symbol";
    case profd::v1::NAME_SOURCE_SYMBOLS:
      return "symbol table";
    case profd::v1::NAME_SOURCE_DYNAMIC_SYMBOLS:
      return "dynamic symbols";
    case profd::v1::NAME_SOURCE_DEBUG_FILE:
      return "debug file";
    case profd::v1::NAME_SOURCE_PLT:
      return "PLT";
    case profd::v1::NAME_SOURCE_BOUNDS:
      return "function bounds";
    case profd::v1::NAME_SOURCE_INFERRED:
      return "inferred";
    case profd::v1::NAME_SOURCE_RTTI:
      return "class tables";
    case profd::v1::NAME_SOURCE_PERF_MAP:
      return "perf map";
    case profd::v1::NAME_SOURCE_DEBUG_INFO:
      return "debug info";
    default:
      return {};
  }
}

bool IsPlaceOnly(profd::v1::NameSource source) {
  return source == profd::v1::NAME_SOURCE_NONE || source == profd::v1::NAME_SOURCE_BOUNDS;
}

std::vector<profd::v1::NameShare> NameSharesOf(const Profile& profile) {
  const auto& types = profile.message->sample_types();
  std::vector<profd::v1::NameShare> shares;
  for (const profd::v1::NameShare& share : profile.message->name_shares()) {
    const bool mine =
        share.sample_type() < static_cast<uint32_t>(types.size()) &&
        types.Get(static_cast<int>(share.sample_type())).name() == profile.type.name();
    if (mine && share.share() > 0 && share.share() <= 1) shares.push_back(share);
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.share() > b.share(); });
  return shares;
}

std::string NameSharesText(const std::vector<profd::v1::NameShare>& shares) {
  std::string text;
  for (const profd::v1::NameShare& share : shares) {
    const std::string_view source = NameSourceText(share.source());
    absl::StrAppend(&text, text.empty() ? "" : ", ", FormatShare(share.share(), 1), " ",
                    source.empty() ? "other" : std::string(source));
  }
  return text;
}

std::string DescribeNameShares(const Profile& profile) {
  const std::vector<profd::v1::NameShare> shares = NameSharesOf(profile);
  double unnamed = 0;
  for (const profd::v1::NameShare& share : shares) {
    if (IsPlaceOnly(share.source())) unnamed += share.share();
  }
  return unnamed < kUnnamedShare ? "" : NameSharesText(shares);
}

}  // namespace profctl
