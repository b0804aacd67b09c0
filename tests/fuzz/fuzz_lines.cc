// Any bytes given as a message of the process that reads debug info are refused, or within the
// bounds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "daemon/lines/protocol.h"

using profd::DecodeFileQuestion;
using profd::DecodeLineAnswer;
using profd::DecodeLineRequest;

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  if (const auto request = DecodeLineRequest(bytes)) {
    Require(request->addresses.size() <= profd::kMaxLineAddresses);
    const auto again = DecodeLineRequest(EncodeLineRequest(*request));
    Require(again && again->addresses == request->addresses);
  }
  if (const auto question = DecodeFileQuestion(bytes)) {
    Require(question->name.size() <= profd::kMaxFileName);
    Require(question->build_id.size() <= profd::kMaxBuildId);
    const auto again = DecodeFileQuestion(EncodeFileQuestion(*question));
    Require(again && again->name == question->name && again->build_id == question->build_id);
  }
  const auto answer = DecodeLineAnswer(bytes);
  if (!answer) return 0;
  Require(answer->chains.size() <= profd::kMaxLineAddresses);
  for (const auto& [address, chain] : answer->chains) {
    Require(chain.size() <= profd::kMaxChain);
    for (const profd::SourceLine& line : chain) {
      Require(line.function.size() <= profd::kMaxFunctionText);
      Require(line.file.size() <= profd::kMaxFileText);
    }
  }
  return 0;
}
