// Adds texts to the strings of a message.
#ifndef PROFD_CLIENT_ANSWER_STRING_TABLE_H_
#define PROFD_CLIENT_ANSWER_STRING_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {

class StringTable {
 public:
  // `message`, whose first string is empty, must outlive this.
  explicit StringTable(profd::v1::Profile* message) : message_(message) {
    for (int i = 0; i < message->strings_size(); ++i) {
      numbers_.try_emplace(message->strings(i), static_cast<uint32_t>(i));
    }
  }

  // The index of a text, each of which is added once.
  uint32_t Add(const std::string& text) {
    const auto [it, fresh] =
        numbers_.try_emplace(text, static_cast<uint32_t>(message_->strings_size()));
    if (fresh) message_->add_strings(text);
    return it->second;
  }

 private:
  profd::v1::Profile* const message_;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
};

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_STRING_TABLE_H_
