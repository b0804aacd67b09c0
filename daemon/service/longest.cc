#include "daemon/service/longest.h"

#include "daemon/profile/identity.h"
#include "daemon/service/messages.h"

namespace profd {

bool LongestWaits::MayShow(const MergedWait& wait) const {
  return plan_.longest && plan_.reasons[static_cast<size_t>(wait.wait.key.reason)];
}

void LongestWaits::AddStacks(NamedStacks* stacks) const {
  for (const MergedWait& merged : profile_.long_waits) {
    if (!MayShow(merged)) continue;
    const ProcessId process = ProcessIdOf(*profile_.threads[merged.thread].info);
    stacks->Add(merged.wait.key.stack, process);
    if (merged.wait.waker != StackId{}) {
      stacks->AddWoken(merged.wait.key.stack, process, merged.wait.waker);
    }
  }
}

void LongestWaits::Choose(const IdleOf& idle_of) {
  for (const MergedWait& merged : profile_.long_waits) {
    if (!MayShow(merged)) continue;
    const std::string_view idle = idle_of(*profile_.threads[merged.thread].info, merged.wait.key);
    if (!idle.empty() && !plan_.longest->idle) {
      idle_left_out_ += 1 + merged.similar;
    } else if (chosen_.size() < plan_.longest->limit) {
      chosen_.push_back({.wait = &merged, .idle = idle});
      threads_.emplace(merged.thread, 0);
    } else {
      left_out_ += 1 + merged.similar;
    }
  }
}

void LongestWaits::Send(const NamedStacks& stacks, WaitObjects* objects, int64_t wall_offset_ns,
                        Tables* tables, PartWriter* parts) const {
  if (!plan_.longest) return;
  for (const auto& [merged, idle] : chosen_) {
    const LongWait& wait = merged->wait;
    const ProcessId process = ProcessIdOf(*profile_.threads[merged->thread].info);
    // Tables before what refers to them.
    std::vector<uint32_t> attributes;
    if (!idle.empty()) attributes.push_back(tables->TextAttribute("idle", idle));
    if (wait.key.syscall >= 0) {
      attributes.push_back(tables->NumberAttribute("syscall", wait.key.syscall));
      const std::string object = objects->TextOf(wait.key);
      if (!object.empty()) attributes.push_back(tables->TextAttribute("object", object));
    }
    const uint32_t stack = stacks.NumberOf(wait.key.stack, process);
    const uint32_t woken = stacks.NumberOfWoken(wait.key.stack, process, wait.waker);
    // The first frame of a stack with a waker is the waker's name.
    const bool known = wait.waker != StackId{} && woken != stack;
    const uint32_t waker =
        known ? tables->String(stacks.frames()[stacks.stacks()[woken].frames.front()].function) : 0;

    v1::LongWait* out = parts->part().mutable_longest()->add_waits();
    out->set_thread(threads_.at(merged->thread));
    out->set_begin_ns(wait.begin_ns + wall_offset_ns);
    out->set_duration_ns(wait.duration_ns);
    out->set_doubt_ns(wait.doubt_ns);
    out->set_reason(ToProto(wait.key.reason));
    out->set_stack(stack);
    out->mutable_attributes()->Add(attributes.begin(), attributes.end());
    out->set_lasts(wait.lasts);
    out->set_began_earlier(wait.earlier);
    out->set_waker(waker);
    if (known) out->set_woken_stack(woken);
    out->set_similar(merged->similar);
    parts->Added(*out);
  }
  v1::LongestWaits* all = parts->part().mutable_longest();
  all->set_least_ns(profile_.long_work_ns);
  all->set_least_rest_ns(profile_.long_rest_ns);
  all->set_left_out(left_out_);
  all->set_idle_left_out(idle_left_out_);
}

}  // namespace profd
