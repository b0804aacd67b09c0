#include "client/answer/json_message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"

namespace profctl {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void AppendEscape(uint32_t unit, std::string* out) {
  std::array<char, 8> text;
  snprintf(text.data(), text.size(), "\\u%04x", unit & 0xffff);
  out->append(text.data());
}

// Control characters, and characters without a shape, which may change how those around them look:
// a terminal or an editor is to show what is there. The ranges are those of protobuf's writer.
bool IsInvisible(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range kRanges[] = {
      {0x80, 0x9f},       {0xad, 0xad},       {0x600, 0x603},     {0x6dd, 0x6dd},
      {0x70f, 0x70f},     {0x17b4, 0x17b5},   {0x200b, 0x200f},   {0x2028, 0x202e},
      {0x2060, 0x2064},   {0x206a, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},
      {0x1d173, 0x1d17a}, {0xe0001, 0xe0001}, {0xe0020, 0xe007f},
  };
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const Range& range) { return c >= range.first && c <= range.last; });
}

// The character of more than one byte at `at`, and its size.
std::pair<char32_t, size_t> CharacterAt(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc0 || text.size() - at < size) return {first, 1};
  char32_t c = first & (0x7f >> size);
  for (size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xc0) != 0x80) return {first, 1};
    c = c << 6 | (byte & 0x3f);
  }
  return {c, size};
}

void AppendInvisible(char32_t c, std::string* out) {
  if (c <= 0xffff) {
    AppendEscape(c, out);
    return;
  }
  // Two units of UTF-16.
  AppendEscape(0xd800 + ((c - 0x10000) >> 10), out);
  AppendEscape(0xdc00 + (c & 0x3ff), out);
}

void AppendSpecial(unsigned char byte, std::string* out) {
  switch (byte) {
    case '"':
      out->append("\\\"");
      break;
    case '\\':
      out->append("\\\\");
      break;
    case '\n':
      out->append("\\n");
      break;
    case '\r':
      out->append("\\r");
      break;
    case '\t':
      out->append("\\t");
      break;
    case '\b':
      out->append("\\b");
      break;
    case '\f':
      out->append("\\f");
      break;
    default:
      AppendEscape(byte, out);
  }
}

// Whether a character of one byte is escaped. "<" and ">" are, so that the text may stand in an
// HTML page.
bool IsSpecial(unsigned char byte) {
  return byte < 0x20 || byte == '"' || byte == '\\' || byte == '<' || byte == '>' || byte == 0x7f;
}

void AppendString(std::string_view text, std::string* out) {
  out->push_back('"');
  size_t copied = 0;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto [character, size] =
        byte < 0x80 ? std::pair<char32_t, size_t>(byte, 1) : CharacterAt(text, i);
    if (byte < 0x80 ? IsSpecial(byte) : IsInvisible(character)) {
      out->append(text.substr(copied, i - copied));
      copied = i + size;
      byte < 0x80 ? AppendSpecial(byte, out) : AppendInvisible(character, out);
    }
    i += size;
  }
  out->append(text.substr(copied));
  out->push_back('"');
}

template <typename T>
void AppendInteger(T value, std::string* out) {
  std::array<char, 24> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  out->append(text.data(), end);
}

// JavaScript has no integers of 64 bits.
template <typename T>
void AppendWide(T value, std::string* out) {
  out->push_back('"');
  AppendInteger(value, out);
  out->push_back('"');
}

// With 15 digits, or with 17 if fewer would be read as another number.
void AppendDouble(double value, std::string* out) {
  if (std::isnan(value)) {
    out->append("\"NaN\"");
    return;
  }
  if (std::isinf(value)) {
    out->append(value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    return;
  }
  std::array<char, 32> text;
  snprintf(text.data(), text.size(), "%.15g", value);
  if (std::strtod(text.data(), nullptr) != value) {
    snprintf(text.data(), text.size(), "%.17g", value);
  }
  out->append(text.data());
}

void AppendEnum(const FieldDescriptor& field, int number, std::string* out) {
  const EnumValueDescriptor* value = field.enum_type()->FindValueByNumber(number);
  if (value != nullptr) {
    AppendString(value->name(), out);
  } else {
    AppendInteger(number, out);  // of a newer profd
  }
}

// One value of a field. `at`: which, of a repeated field.
void AppendValue(const Message& message, const FieldDescriptor& field, int at, std::string* out) {
  const Reflection& values = *message.GetReflection();
  const bool many = field.is_repeated();
  std::string scratch;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      AppendInteger(
          many ? values.GetRepeatedInt32(message, &field, at) : values.GetInt32(message, &field),
          out);
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      AppendInteger(
          many ? values.GetRepeatedUInt32(message, &field, at) : values.GetUInt32(message, &field),
          out);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      AppendWide(
          many ? values.GetRepeatedInt64(message, &field, at) : values.GetInt64(message, &field),
          out);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      AppendWide(
          many ? values.GetRepeatedUInt64(message, &field, at) : values.GetUInt64(message, &field),
          out);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      AppendDouble(
          many ? values.GetRepeatedDouble(message, &field, at) : values.GetDouble(message, &field),
          out);
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      // profd's messages have none.
      AppendDouble(static_cast<double>(many ? values.GetRepeatedFloat(message, &field, at)
                                            : values.GetFloat(message, &field)),
                   out);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      out->append(
          (many ? values.GetRepeatedBool(message, &field, at) : values.GetBool(message, &field))
              ? "true"
              : "false");
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      AppendEnum(field,
                 many ? values.GetRepeatedEnumValue(message, &field, at)
                      : values.GetEnumValue(message, &field),
                 out);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      AppendString(many ? values.GetRepeatedStringReference(message, &field, at, &scratch)
                        : values.GetStringReference(message, &field, &scratch),
                   out);
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      AppendJson(many ? values.GetRepeatedMessage(message, &field, at)
                      : values.GetMessage(message, &field),
                 out);
      break;
  }
}

void AppendValues(const Message& message, const FieldDescriptor& field, std::string* out) {
  const int size = message.GetReflection()->FieldSize(message, &field);
  out->push_back('[');
  for (int i = 0; i < size; ++i) {
    if (i > 0) out->push_back(',');
    AppendValue(message, field, i, out);
  }
  out->push_back(']');
}

}  // namespace

void AppendJson(const Message& message, std::string* out) {
  const Descriptor& type = *message.GetDescriptor();
  const Reflection& values = *message.GetReflection();
  char before = '{';
  const auto append = [&](const FieldDescriptor& field) {
    if (field.has_presence() && !values.HasField(message, &field)) return;
    out->push_back(before);
    before = ',';
    out->push_back('"');
    out->append(field.name());
    out->append("\":");
    if (field.is_repeated()) {
      AppendValues(message, field, out);
    } else {
      AppendValue(message, field, 0, out);
    }
  };
  // For protobuf an `optional` field is a oneof with one member. Those come last, by number.
  std::vector<const FieldDescriptor*> last;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->containing_oneof() != nullptr) {
      last.push_back(field);
    } else {
      append(*field);
    }
  }
  std::sort(last.begin(), last.end(), [](const FieldDescriptor* a, const FieldDescriptor* b) {
    return a->number() < b->number();
  });
  for (const FieldDescriptor* field : last) append(*field);
  if (before == '{') out->push_back(before);
  out->push_back('}');
}

}  // namespace profctl
