#include "daemon/service/tables.h"

#include "daemon/service/messages.h"
#include "daemon/service/origin.h"

namespace profd {
namespace {

v1::FrameKind ToProto(FrameKind kind) {
  switch (kind) {
    case FrameKind::kKernel:
      return v1::FRAME_KIND_KERNEL;
    case FrameKind::kLibc:
      return v1::FRAME_KIND_LIBC;
    case FrameKind::kRuntime:
      return v1::FRAME_KIND_RUNTIME;
    case FrameKind::kApplication:
      return v1::FRAME_KIND_APPLICATION;
    case FrameKind::kSynthetic:
      return v1::FRAME_KIND_SYNTHETIC;
  }
  return v1::FRAME_KIND_UNSPECIFIED;
}

}  // namespace

Tables::Tables(PartWriter* parts) : parts_(parts) {
  v1::Profile& part = parts_->part();
  part.add_strings();
  strings_.emplace("", 0);
  part.add_mappings();
  mappings_.emplace(std::tuple(0, 0, 0, 0), 0);
  part.add_stacks();
  part.add_groups();
}

uint32_t Tables::String(std::string_view text) {
  const auto [it, fresh] =
      strings_.try_emplace(std::string(text), static_cast<uint32_t>(strings_.size()));
  if (fresh) {
    parts_->part().add_strings(std::string(text));
    parts_->AddedBytes(text.size());
  }
  return it->second;
}

uint32_t Tables::TextAttribute(std::string_view key, std::string_view text) {
  const std::pair<uint32_t, uint32_t> pair(String(key), String(text));
  const auto [it, fresh] = texts_.try_emplace(pair, attribute_count_);
  if (fresh) {
    attribute_count_++;
    v1::Attribute* attribute = parts_->part().add_attributes();
    attribute->set_key(pair.first);
    attribute->set_text(pair.second);
    parts_->Added(*attribute);
  }
  return it->second;
}

uint32_t Tables::NumberAttribute(std::string_view key, int64_t number) {
  const std::pair<uint32_t, int64_t> pair(String(key), number);
  const auto [it, fresh] = numbers_.try_emplace(pair, attribute_count_);
  if (fresh) {
    attribute_count_++;
    v1::Attribute* attribute = parts_->part().add_attributes();
    attribute->set_key(pair.first);
    attribute->set_number(number);
    parts_->Added(*attribute);
  }
  return it->second;
}

uint32_t Tables::Group(const std::vector<std::string>& labels) {
  if (labels.empty()) return 0;
  std::vector<uint32_t> key;
  key.reserve(labels.size());
  for (const std::string& label : labels) key.push_back(String(label));
  const auto [it, fresh] =
      groups_.try_emplace(std::move(key), static_cast<uint32_t>(groups_.size() + 1));
  if (fresh) {
    v1::Group* group = parts_->part().add_groups();
    group->mutable_labels()->Add(it->first.begin(), it->first.end());
    parts_->Added(*group);
  }
  return it->second;
}

uint32_t Tables::Mapping(const NamedFrame& frame) {
  const std::tuple key(String(frame.module), String(frame.build_id),
                       String(frame.code ? frame.code->id : ""), String(frame.headers_id));
  const auto [it, fresh] = mappings_.try_emplace(key, static_cast<uint32_t>(mappings_.size()));
  if (fresh) {
    v1::Mapping* mapping = parts_->part().add_mappings();
    mapping->set_file(std::get<0>(key));
    mapping->set_build_id(std::get<1>(key));
    mapping->set_code_id(std::get<2>(key));
    mapping->set_headers_id(std::get<3>(key));
    if (frame.code) {
      for (const symbolize::Segment& segment : frame.code->segments) {
        v1::CodeSegment* code = mapping->add_code();
        code->set_offset(segment.offset);
        code->set_address(segment.address);
        code->set_size(segment.file_size);
      }
    }
    parts_->Added(*mapping);
  }
  return it->second;
}

uint32_t Tables::Function(const FrameText& text, NameSource found_by, std::string_view file,
                          const NameDetails* details) {
  FunctionKey key = {.name = String(text.function),
                     .file = String(file),
                     .suffix = details != nullptr ? String(details->suffix) : 0,
                     .other_names = {},
                     .more_names = details != nullptr ? details->more_names : 0,
                     .kind = text.kind,
                     .found_by = found_by,
                     .common = IsCommon(text)};
  if (details != nullptr) {
    for (const std::string& name : details->other_names) key.other_names.push_back(String(name));
  }
  const auto [it, fresh] = functions_.try_emplace(key, static_cast<uint32_t>(functions_.size()));
  if (fresh) {
    v1::Function* function = parts_->part().add_functions();
    function->set_name(key.name);
    function->set_kind(ToProto(key.kind));
    function->set_found_by(ToProto(key.found_by));
    function->set_common(key.common);
    function->set_file(key.file);
    function->set_suffix(key.suffix);
    function->mutable_other_names()->Add(key.other_names.begin(), key.other_names.end());
    function->set_more_names(key.more_names);
    parts_->Added(*function);
  }
  return it->second;
}

void Tables::AddLocation(const NamedFrame& frame) {
  // Whatever it refers to comes first, and may end a part.
  v1::Location location;
  location.set_mapping(Mapping(frame));
  location.set_address(frame.offset);
  location.set_exact(frame.exact);
  const auto add = [&](uint32_t function, uint32_t number) {
    v1::Line* line = location.add_lines();
    line->set_function(function);
    line->set_line(number);
  };
  for (const InlinedFunction& inlined : frame.inlined) {
    add(Function({inlined.function, frame.module, inlined.kind}, NameSource::kDebugInfo,
                 inlined.file, nullptr),
        inlined.line);
  }
  add(Function({frame.function, frame.module, frame.kind}, frame.found_by, frame.file,
               frame.details.get()),
      frame.line);
  v1::Location* sent = parts_->part().add_locations();
  *sent = std::move(location);
  parts_->Added(*sent);
}

void Tables::AddStacks(const NamedStacks& stacks) {
  for (const NamedFrame& frame : stacks.frames()) {
    AddLocation(frame);
    if (parts_->client_left()) return;
  }
  for (size_t i = 1; i < stacks.stacks().size(); i++) {
    const NamedStack& named = stacks.stacks()[i];
    v1::Stack* stack = parts_->part().add_stacks();
    stack->mutable_locations()->Add(named.frames.begin(), named.frames.end());
    stack->set_complete(named.complete);
    stack->set_origin(named.origin);
    stack->set_origin_line(named.origin_line);
    parts_->Added(*stack);
    if (parts_->client_left()) return;
  }
}

}  // namespace profd
