#include "tests/unit/fixture_looks.h"

#include <map>
#include <string>
#include <utility>

#include "tests/unit/fixture_profile.h"

namespace profctl {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;

uint32_t Text(profd::v1::Profile* message, const std::string& text) {
  message->add_strings(text);
  return static_cast<uint32_t>(message->strings_size() - 1);
}

uint32_t Attribute(profd::v1::Profile* message, const std::string& key, const std::string& text) {
  profd::v1::Attribute attribute;
  attribute.set_key(Text(message, key));
  attribute.set_text(Text(message, text));
  *message->add_attributes() = attribute;
  return static_cast<uint32_t>(message->attributes_size() - 1);
}

}  // namespace

profd::v1::Profile LooksMessage() {
  AnswerWriter writer = ServerAnswer();
  writer.AddThread(4242, 4330, "reth", "hog", kSecond, kSecond);
  profd::v1::Profile message = writer.Message({});
  const std::string lock = "futex 0x7f0012345678";
  std::map<uint32_t, int> seen;  // samples by thread
  for (const profd::v1::Sample& sample : message.samples()) {
    const uint32_t thread = sample.threads(0);
    const int nth = seen[thread]++;
    // Workers 0 and 1 in their second wait, worker 2 on the run queue, all others in the first.
    const int wanted = thread < 2 ? 1 : thread == 2 ? 2 : 0;
    if (nth != wanted) continue;
    profd::v1::ThreadLook* look = message.add_looks();
    look->set_thread(thread);
    look->set_reason(sample.reason());
    look->set_stack(sample.stack());
    look->set_for_ns((static_cast<int64_t>(thread) + 1) * 111 * kMs);
    for (const uint32_t attribute : sample.attributes()) {
      const profd::v1::Attribute& sent = message.attributes(static_cast<int>(attribute));
      if (message.strings(static_cast<int>(sent.key())) != "object") {
        look->add_attributes(attribute);
      }
    }
    if (sample.reason() == profd::v1::REASON_LOCK) {
      look->add_attributes(Attribute(&message, "object", lock));
    }
    if (sample.reason() == profd::v1::REASON_FSYNC) {
      look->add_attributes(Attribute(&message, "object", "fd 7"));
      look->add_attributes(Attribute(&message, "file", "/data/\x1b[31mmdbx.dat"));
      look->clear_for_ns();
    }
  }
  profd::v1::ThreadLook* hog = message.add_looks();
  hog->set_thread(static_cast<uint32_t>(message.threads_size() - 1));
  hog->set_reason(profd::v1::REASON_ON_CPU);
  hog->set_for_ns(3 * kMs);
  message.clear_samples();
  profd::v1::LookTotals* totals = message.mutable_look();
  totals->set_begin_ns(message.coverage().end_ns());
  totals->set_duration_ns(310'000);
  totals->set_cpu_ns(290'000);
  totals->set_threads(static_cast<uint64_t>(message.looks_size()) + 5);
  totals->set_left_out(5);
  totals->set_torn(1);
  totals->set_visited(99);
  totals->set_walks(90);
  return message;
}

absl::StatusOr<Looks> ReadLooksOf(const profd::v1::Profile& message) {
  ProfileBuilder builder({});
  absl::Status status = builder.Add(message);
  if (!status.ok()) return status;
  absl::StatusOr<Answer> answer = builder.Finish();
  if (!answer.ok()) return answer.status();
  return ReadLooks(*std::move(answer));
}

}  // namespace profctl
