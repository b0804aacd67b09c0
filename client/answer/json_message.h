// Writes protobuf messages as JSON.
#ifndef PROFD_CLIENT_ANSWER_JSON_MESSAGE_H_
#define PROFD_CLIENT_ANSWER_JSON_MESSAGE_H_

#include <string>

#include "google/protobuf/message.h"

namespace profctl {

// Appends `message` in protobuf's JSON mapping, in one line: with the field names of the .proto
// file, and with fields that are 0, empty or false, unless they are `optional` or messages. It
// writes what protobuf's own writer writes with these options. That one builds a tree of the whole
// answer first, which takes long, and much memory. Maps, bytes and floats would come out
// differently; profd's messages have none. Strings must be UTF-8, as those of received messages
// are.
void AppendJson(const google::protobuf::Message& message, std::string* out);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_JSON_MESSAGE_H_
