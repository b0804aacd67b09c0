// Any bytes given as an answer give something that every writer can write, or an error. An input
// that begins with '{' is a saved answer; others are the parts of a stream, each after its length.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "client/answer/json.h"
#include "client/answer/profile.h"
#include "client/answer/saved_answer.h"
#include "client/answer/view.h"
#include "client/render/findings.h"
#include "client/render/flamegraph_svg.h"
#include "client/render/folded.h"
#include "client/render/pprof.h"
#include "client/render/speedscope.h"
#include "client/render/summary.h"
#include "google/protobuf/stubs/logging.h"

namespace {

using profctl::Answer;
using profctl::View;

void Require(bool condition) {
  if (!condition) std::abort();
}

void WriteAll(const Answer& answer) {
  Require(!answer.profiles.empty());
  std::vector<View> views;
  for (const bool show_idle : {false, true}) {
    views.clear();
    for (const profctl::Profile& profile : answer.profiles) {
      views.push_back(profctl::MakeView(profile, show_idle));
    }
    for (const View& view : views) {
      Require(!profctl::RenderSummary(view, false).empty());
      (void)profctl::RenderFolded(view);
    }
  }
  Require(!profctl::RenderFlameGraph(views.front()).empty());
  (void)profctl::RenderPprof(views);
  Require(!profctl::RenderSpeedscope(views).empty());
  // What was written as JSON is read again.
  const std::string json = profctl::RenderJson(profctl::WithFindings(answer, views));
  profd::v1::Profile message;
  Require(profctl::ParseJson(json, &message).ok());
}

void ReadSaved(std::string_view input) {
  profd::v1::Profile message;
  if (!profctl::ParseJson(std::string(input), &message).ok()) return;
  const auto answer = profctl::BuildAnswer(message);
  if (answer.ok()) WriteAll(*answer);
}

void ReadParts(std::string_view input) {
  std::vector<profd::v1::Profile> parts;
  while (input.size() >= 2) {
    const size_t length = static_cast<uint8_t>(input[0]) | static_cast<uint8_t>(input[1]) << 8;
    input.remove_prefix(2);
    const std::string_view part = input.substr(0, length);
    input.remove_prefix(part.size());
    if (!parts.emplace_back().ParseFromArray(part.data(), static_cast<int>(part.size()))) return;
  }
  if (parts.empty()) return;
  std::vector<std::string> types;
  for (const profd::v1::SampleType& type : parts[0].sample_types()) types.push_back(type.name());
  profctl::ProfileBuilder builder(std::move(types));
  for (const profd::v1::Profile& part : parts) {
    if (!builder.Add(part).ok()) return;
  }
  const auto answer = builder.Finish();
  if (answer.ok()) WriteAll(*answer);
}

}  // namespace

// Every other input is no message, and protobuf would say so.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with('{')) {
    ReadSaved(input);
  } else {
    ReadParts(input);
  }
  return 0;
}
