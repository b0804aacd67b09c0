#include "daemon/service/stacks_answer.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/profile/identity.h"
#include "daemon/profile/sample_type.h"
#include "daemon/service/idle.h"
#include "daemon/service/messages.h"
#include "daemon/service/name_ends.h"
#include "daemon/service/named_stacks.h"
#include "daemon/service/object_text.h"
#include "daemon/service/tables.h"
#include "daemon/service/text.h"
#include "daemon/service/wait_object.h"

namespace profd {
namespace {

// One answer on its way.
class StacksSender {
 public:
  StacksSender(const StacksSources& sources, const SendPart& send)
      : sources_(sources),
        parts_(send, 0),
        stacks_(sources.look.stacks),
        objects_(sources.look.stacks),
        looked_objects_(sources.look, sources.ends, &objects_),
        files_(sources.ends.proc),
        boot_to_wall_ns_(WallNs() - BootNs()) {}

  bool Send() {
    for (const LookedThread& thread : sources_.look.threads) {
      stacks_.Add(thread.stack, ProcessIdOf(thread.info));
    }
    SendHead();
    stacks_.Name(sources_.names, sources_.lines);
    Tables tables(&parts_);
    tables.AddStacks(stacks_);
    for (const LookedThread& thread : sources_.look.threads) {
      if (parts_.client_left()) break;
      SendThread(thread, &tables);
    }
    if (sources_.lines != LineWish::kNone) {
      stacks_.FillLines(parts_.part().mutable_source_lines());
    }
    return parts_.Finish();
  }

 private:
  void SendHead() {
    v1::Profile& part = parts_.part();
    FillHost(sources_.host, part.mutable_host());
    // The kind of profile whose stacks these are; it has no samples.
    part.add_sample_types()->set_name(std::string(DescribeSampleType(Kind::kWait).name));
    const Look& look = sources_.look;
    v1::LookTotals* totals = part.mutable_look();
    totals->set_begin_ns(look.begin_ns + sources_.wall_offset_ns);
    totals->set_duration_ns(look.end_ns - look.begin_ns);
    totals->set_threads(look.threads.size() + look.left_out);
    totals->set_left_out(look.left_out);
    totals->set_torn(look.torn);
    totals->set_visited(look.visited);
    totals->set_walks(look.walks);
    totals->set_cpu_ns(look.cpu_ns);
    parts_.Flush();
  }

  uint32_t ProcessOf(const ThreadInfo& info) {
    const std::pair key(ProcessIdOf(info), info.process);
    const auto [it, fresh] = processes_.try_emplace(key, static_cast<uint32_t>(processes_.size()));
    if (!fresh) return it->second;
    v1::Process* process = parts_.part().add_processes();
    process->set_pid(info.pid);
    process->set_name(CleanText(info.process, kMaxNameText));
    if (key.first.start_ns != 0) process->set_started_ns(key.first.start_ns + boot_to_wall_ns_);
    parts_.Added(*process);
    return it->second;
  }

  void SendThread(const LookedThread& looked, Tables* tables) {
    const ThreadInfo& info = looked.info;
    const uint32_t process = ProcessOf(info);
    v1::Thread* thread = parts_.part().add_threads();
    thread->set_process(process);
    thread->set_tid(info.tid);
    thread->set_name(CleanText(info.name, kMaxNameText));
    parts_.Added(*thread);
    v1::ThreadLook out;
    out.set_thread(threads_++);
    out.set_reason(looked.running ? v1::REASON_ON_CPU : ToProto(looked.reason));
    if (looked.since_ns) {
      out.set_for_ns(std::max<int64_t>(looked.looked_ns - *looked.since_ns, 0));
    }
    if (!looked.running) {
      out.set_stack(stacks_.NumberOf(looked.stack, ProcessIdOf(info)));
      AddAttributes(looked, out.stack(), tables, &out);
    }
    parts_.part().add_looks()->Swap(&out);
    parts_.Added(parts_.part().looks(parts_.part().looks_size() - 1));
  }

  void AddAttributes(const LookedThread& looked, uint32_t stack, Tables* tables,
                     v1::ThreadLook* out) {
    const auto add_text = [&](std::string_view key, std::string_view text) {
      if (!text.empty()) out->add_attributes(tables->TextAttribute(key, text));
    };
    const NamedStack& named = stacks_.stacks()[stack];
    add_text("idle", IdleOfWait(looked.reason, named.idle, looked.info.process, looked.info.name,
                                objects_.TurnOf(looked.described)));
    const bool queues = looked.reason == Reason::kRunQueue;
    if (looked.syscall >= 0) {
      out->add_attributes(tables->NumberAttribute("syscall", looked.syscall));
    }
    const std::string described = looked_objects_.TextOf(looked);
    // Who has the CPU. A thread that was woken waits for nothing else any more.
    if (queues) add_text("object", described);
    if (queues || looked.syscall < 0) return;
    add_text("object", described);
    if (!looked.object) return;
    if (described.empty()) add_text("object", ObjectText(looked.syscall, *looked.object));
    if (IsDescriptor(looked.syscall)) {
      add_text("file", files_.Find(looked.info.pid, *looked.object));
    }
  }

  const StacksSources& sources_;
  PartWriter parts_;
  NamedStacks stacks_;
  WaitObjects objects_;
  const LookedObjects looked_objects_;
  OpenFiles files_;
  const int64_t boot_to_wall_ns_;
  std::map<std::pair<ProcessId, std::string>, uint32_t> processes_;
  uint32_t threads_ = 0;
};

}  // namespace

bool SendStacks(const StacksSources& sources, const SendPart& send) {
  return StacksSender(sources, send).Send();
}

}  // namespace profd
