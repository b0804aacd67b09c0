#include "client/answer/short_names.h"

#include <cstdint>
#include <string_view>

#include "client/answer/string_table.h"
#include "daemon/symbolize/short_name.h"

namespace profctl {
namespace {

using profd::symbolize::ShortName;

constexpr std::string_view kLockKey = "lock";

void ShortenPlaces(google::protobuf::RepeatedPtrField<profd::v1::LockPlace>* places) {
  for (profd::v1::LockPlace& place : *places) place.set_function(ShortName(place.function()));
}

}  // namespace

void ShortenNames(profd::v1::Profile* message) {
  StringTable strings(message);
  const auto shorten = [&](uint32_t name) {
    // A string is also used by others, so that it stays.
    return strings.Add(ShortName(message->strings(static_cast<int>(name))));
  };
  for (profd::v1::Function& function : *message->mutable_functions()) {
    if (function.found_by() == profd::v1::NAME_SOURCE_PERF_MAP) continue;
    function.set_name(shorten(function.name()));
    for (uint32_t& other : *function.mutable_other_names()) other = shorten(other);
  }
  for (profd::v1::Group& group : *message->mutable_groups()) {
    for (int i = 0; i < group.labels_size(); ++i) {
      if (message->group_by(i) == profd::v1::GROUP_KEY_FUNCTION) {
        group.set_labels(i, shorten(group.labels(i)));
      }
    }
  }
  // "lock of FUNCTION" is the same in samples and in the table of locks.
  for (profd::v1::Attribute& attribute : *message->mutable_attributes()) {
    if (message->strings(static_cast<int>(attribute.key())) == kLockKey) {
      attribute.set_text(shorten(attribute.text()));
    }
  }
  for (profd::v1::LockUse& lock : *message->mutable_locks()) {
    lock.set_name(ShortName(lock.name()));
    ShortenPlaces(lock.mutable_waiters());
    ShortenPlaces(lock.mutable_releasers());
  }
}

}  // namespace profctl
