// JSON of messages, against what protobuf's own writer makes of them.
#include "client/answer/json_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "google/protobuf/util/json_util.h"
#include "profd/v1/profiler.pb.h"

namespace profctl {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string Reference(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(message, &json, options).ok());
  return json;
}

std::string Written(const Message& message) {
  std::string json;
  AppendJson(message, &json);
  return json;
}

// Both are long: tells the first place where they differ.
void ExpectSame(const std::string& written, const std::string& reference) {
  const auto [at, other] =
      std::mismatch(written.begin(), written.end(), reference.begin(), reference.end());
  if (at == written.end() && other == reference.end()) return;
  const auto around = [](const std::string& text, size_t place) {
    return text.substr(place < 60 ? 0 : place - 60, 120);
  };
  ADD_FAILURE() << around(written, static_cast<size_t>(at - written.begin())) << "\nshould be\n"
                << around(reference, static_cast<size_t>(other - reference.begin()));
}

// Fills messages with random values, among them those that are hard to write.
class Filler {
 public:
  explicit Filler(uint64_t seed) : random_(seed) {}

  void Fill(Message* message, int depth) {
    const auto* type = message->GetDescriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* field = type->field(i);
      const bool deep = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && depth == 0;
      if (deep || Below(3) == 0) continue;
      const uint64_t count = field->is_repeated() ? Below(3) : 1;
      for (uint64_t n = 0; n < count; ++n) Set(message, field, depth);
    }
  }

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }

  template <typename T>
  T Integer() {
    switch (Below(4)) {
      case 0:
        return std::numeric_limits<T>::min();
      case 1:
        return std::numeric_limits<T>::max();
      case 2:
        return 0;
      default:
        return static_cast<T>(random_());
    }
  }

  double Double() {
    const std::array<double, 10> hard = {0.0,
                                         -0.0,
                                         1.0 / 3.0,
                                         1e300,
                                         5e-324,
                                         0.1,
                                         123456789012345680.0,
                                         std::numeric_limits<double>::infinity(),
                                         -std::numeric_limits<double>::infinity(),
                                         std::numeric_limits<double>::quiet_NaN()};
    const uint64_t which = Below(2 * hard.size());
    return which < hard.size() ? hard[which] : static_cast<double>(random_()) / 1e9;
  }

  std::string Text() {
    std::string text;
    for (uint64_t size = Below(12); size > 0; --size) text.push_back(static_cast<char>(Below(128)));
    if (Below(3) == 0) text += "\u00e4\u20ac\U0001f600";
    return text;
  }

  void Set(Message* message, const FieldDescriptor* field, int depth) {
    const auto* values = message->GetReflection();
    const bool many = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        many ? values->AddInt32(message, field, Integer<int32_t>())
             : values->SetInt32(message, field, Integer<int32_t>());
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        many ? values->AddUInt32(message, field, Integer<uint32_t>())
             : values->SetUInt32(message, field, Integer<uint32_t>());
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        many ? values->AddInt64(message, field, Integer<int64_t>())
             : values->SetInt64(message, field, Integer<int64_t>());
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        many ? values->AddUInt64(message, field, Integer<uint64_t>())
             : values->SetUInt64(message, field, Integer<uint64_t>());
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        many ? values->AddDouble(message, field, Double())
             : values->SetDouble(message, field, Double());
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        many ? values->AddBool(message, field, Below(2) == 0)
             : values->SetBool(message, field, Below(2) == 0);
        break;
      case FieldDescriptor::CPPTYPE_ENUM: {
        // Some have no name.
        const int value = static_cast<int>(Below(40));
        many ? values->AddEnumValue(message, field, value)
             : values->SetEnumValue(message, field, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_STRING:
        many ? values->AddString(message, field, Text())
             : values->SetString(message, field, Text());
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Fill(many ? values->AddMessage(message, field) : values->MutableMessage(message, field),
             depth - 1);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        FAIL() << field->full_name() << ": AppendJson writes no float";
    }
  }

  std::mt19937_64 random_;
};

TEST(JsonMessageTest, IsWhatProtobufWrites) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    profd::v1::Profile message;
    Filler(seed).Fill(&message, 4);
    SCOPED_TRACE(seed);
    ExpectSame(Written(message), Reference(message));
  }
}

void AppendUtf8(char32_t c, std::string* out) {
  const auto push = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    push(c);
  } else if (c < 0x800) {
    push(0xc0 | c >> 6);
    push(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    push(0xe0 | c >> 12);
    push(0x80 | (c >> 6 & 0x3f));
    push(0x80 | (c & 0x3f));
  } else {
    push(0xf0 | c >> 18);
    push(0x80 | (c >> 12 & 0x3f));
    push(0x80 | (c >> 6 & 0x3f));
    push(0x80 | (c & 0x3f));
  }
}

TEST(JsonMessageTest, EveryCharacter) {
  profd::v1::Profile message;
  for (char32_t begin = 0; begin < 0x110000; begin += 0x100) {
    if (begin >= 0xd800 && begin < 0xe000) continue;  // surrogates: not in UTF-8
    std::string* text = message.add_strings();
    for (char32_t c = begin; c < begin + 0x100; ++c) AppendUtf8(c, text);
  }
  const std::string written = Written(message);
  ExpectSame(written, Reference(message));
  profd::v1::Profile read;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(written, &read).ok());
  EXPECT_EQ(read.SerializeAsString(), message.SerializeAsString());
}

TEST(JsonMessageTest, OfOtherMessagesToo) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    profd::v1::GetStatusResponse status;
    Filler(seed).Fill(&status, 4);
    SCOPED_TRACE(seed);
    ExpectSame(Written(status), Reference(status));
  }
  ExpectSame(Written(profd::v1::Profile()), Reference(profd::v1::Profile()));
}

}  // namespace
}  // namespace profctl
