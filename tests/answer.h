// One answer to a Fetch, put together from its stream and read out of its tables: what tests ask of
// it, of one sample type.
#ifndef PROFD_TESTS_ANSWER_H_
#define PROFD_TESTS_ANSWER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "profd/v1/profiler.pb.h"

namespace profd::test {

struct Frame {
  std::string function, module, build_id, headers_id;
  uint64_t address = 0;
  v1::FrameKind kind = v1::FRAME_KIND_UNSPECIFIED;
  v1::NameSource found_by = v1::NAME_SOURCE_UNSPECIFIED;
};

struct Thread {
  int32_t pid = 0;
  int32_t tid = 0;
  std::string name, process;
  v1::Thread ledger;
  bool has_heap = false;
  v1::HeapTotal heap;  // of the sample type
};

struct Sample {
  std::vector<uint32_t> threads;
  uint32_t thread = 0;  // the first of them
  uint32_t stack = 0;
  v1::Reason reason = v1::REASON_UNSPECIFIED;
  std::vector<std::string> group;  // labels
  int64_t syscall = -1;
  std::string object, idle;
  int64_t value = 0, error = 0, weight = 0, growth = 0;
  uint64_t count = 0;
};

class Answer {
 public:
  // Takes the next part. DataLoss when it breaks a rule of the protocol.
  absl::Status Add(const v1::Profile& part) {
    if (message.complete()) return absl::DataLossError("a part after the last one");
    if (parts++ == 0 && part.sample_types().empty()) {
      return absl::DataLossError("the first part has no sample types");
    }
    message.MergeFrom(part);
    // What a part refers to is in it or in those before it.
    return Check(part);
  }
  // To be called when the stream has ended. `type`: index of the sample type.
  absl::Status Finish(int type = 0) {
    if (!message.complete()) return absl::DataLossError("the last part is missing");
    for (const v1::Thread& thread : message.threads()) threads.push_back(ThreadOf(thread, type));
    samples.clear();
    for (const v1::Sample& sample : message.samples()) {
      Sample read = SampleOf(sample, type);
      if (message.sample_types_size() > 1 && read.value == 0 && read.count == 0) continue;
      samples.push_back(std::move(read));
    }
    return absl::OkStatus();
  }

  const v1::SampleType& type(int index = 0) const { return message.sample_types(index); }
  const v1::Coverage& coverage() const { return message.coverage(); }
  const v1::Cost& cost() const { return message.cost(); }

  // Innermost first; empty for what has no sample.
  std::vector<Frame> FramesOf(uint32_t stack) const {
    std::vector<Frame> found;
    for (const uint32_t index : message.stacks(static_cast<int>(stack)).locations()) {
      const v1::Location& location = message.locations(static_cast<int>(index));
      const v1::Mapping& mapping = message.mappings(static_cast<int>(location.mapping()));
      for (const v1::Line& line : location.lines()) {
        const v1::Function& function = message.functions(static_cast<int>(line.function()));
        found.push_back({.function = Text(function.name()),
                         .module = Text(mapping.file()),
                         .build_id = Text(mapping.build_id()),
                         .headers_id = Text(mapping.headers_id()),
                         .address = location.address(),
                         .kind = function.kind(),
                         .found_by = function.found_by()});
      }
    }
    return found;
  }
  std::vector<Frame> FramesOf(const Sample& sample) const { return FramesOf(sample.stack); }
  std::vector<std::string> Functions(uint32_t stack) const {
    std::vector<std::string> names;
    for (Frame& frame : FramesOf(stack)) names.push_back(std::move(frame.function));
    return names;
  }
  bool IsComplete(const Sample& sample) const {
    return message.stacks(static_cast<int>(sample.stack)).complete();
  }
  const std::string& Text(uint32_t index) const { return message.strings(static_cast<int>(index)); }

  v1::Profile message;  // the whole answer
  int parts = 0;
  std::vector<Thread> threads;
  std::vector<Sample> samples;

 private:
  static bool Has(uint32_t index, int size) { return index < static_cast<uint32_t>(size); }

  absl::Status Check(const v1::Profile& part) const {
    const auto bad = [](const google::protobuf::Message& entry) {
      return absl::DataLossError(
          absl::StrCat("an entry refers to what was not sent: ", entry.DebugString()));
    };
    const int strings = message.strings_size();
    for (const v1::Mapping& mapping : part.mappings()) {
      if (!Has(mapping.file(), strings) || !Has(mapping.build_id(), strings) ||
          !Has(mapping.headers_id(), strings)) {
        return bad(mapping);
      }
    }
    for (const v1::Function& function : part.functions()) {
      if (!Has(function.name(), strings) || Text(function.name()).empty()) return bad(function);
    }
    for (const v1::Location& location : part.locations()) {
      if (!Has(location.mapping(), message.mappings_size()) || location.lines().empty()) {
        return bad(location);
      }
      for (const v1::Line& line : location.lines()) {
        if (!Has(line.function(), message.functions_size())) return bad(location);
      }
    }
    for (const v1::Stack& stack : part.stacks()) {
      for (const uint32_t location : stack.locations()) {
        if (!Has(location, message.locations_size())) return bad(stack);
      }
      if (!stack.locations().empty() && !Has(stack.origin(), stack.locations_size())) {
        return bad(stack);
      }
    }
    for (const v1::Attribute& attribute : part.attributes()) {
      if (!Has(attribute.key(), strings) || !Has(attribute.text(), strings)) return bad(attribute);
    }
    for (const v1::Thread& thread : part.threads()) {
      if (!Has(thread.process(), message.processes_size())) return bad(thread);
    }
    for (const v1::Group& group : part.groups()) {
      for (const uint32_t label : group.labels()) {
        if (!Has(label, strings)) return bad(group);
      }
    }
    for (const v1::Sample& sample : part.samples()) {
      const int types = message.sample_types_size();
      if (!Has(sample.stack(), message.stacks_size()) ||
          !Has(sample.group(), message.groups_size()) || sample.threads().empty() ||
          sample.values_size() != types || sample.errors_size() != types ||
          sample.weights_size() != types || sample.counts_size() != types) {
        return bad(sample);
      }
      for (const uint32_t thread : sample.threads()) {
        if (!Has(thread, message.threads_size())) return bad(sample);
      }
      for (const uint32_t attribute : sample.attributes()) {
        if (!Has(attribute, message.attributes_size())) return bad(sample);
      }
    }
    return absl::OkStatus();
  }

  Thread ThreadOf(const v1::Thread& sent, int type) const {
    const v1::Process& process = message.processes(static_cast<int>(sent.process()));
    Thread thread = {.pid = process.pid(),
                     .tid = sent.tid(),
                     .name = sent.name(),
                     .process = process.name(),
                     .ledger = sent,
                     .heap = {}};
    const bool freed = message.sample_types(type).name() == "free";
    thread.has_heap = freed ? sent.has_freed() : sent.has_allocated();
    thread.heap = freed ? sent.freed() : sent.allocated();
    return thread;
  }

  Sample SampleOf(const v1::Sample& sent, int type) const {
    Sample sample = {.threads = {sent.threads().begin(), sent.threads().end()},
                     .thread = sent.threads(0),
                     .stack = sent.stack(),
                     .reason = sent.reason(),
                     .group = {},
                     .object = {},
                     .idle = {},
                     .value = sent.values(type),
                     .error = sent.errors(type),
                     .weight = sent.weights(type),
                     .growth = sent.growth().empty() ? 0 : sent.growth(type),
                     .count = sent.counts(type)};
    for (const uint32_t label : message.groups(static_cast<int>(sent.group())).labels()) {
      sample.group.push_back(Text(label));
    }
    for (const uint32_t index : sent.attributes()) {
      const v1::Attribute& attribute = message.attributes(static_cast<int>(index));
      const std::string& key = Text(attribute.key());
      if (key == "syscall") sample.syscall = attribute.number();
      if (key == "object") sample.object = Text(attribute.text());
      if (key == "idle") sample.idle = Text(attribute.text());
    }
    return sample;
  }
};

}  // namespace profd::test

#endif  // PROFD_TESTS_ANSWER_H_
