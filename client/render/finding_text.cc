#include "client/render/finding_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/answer/kind.h"
#include "client/answer/reason.h"
#include "client/render/estimate.h"
#include "client/render/occupants.h"
#include "client/text/text.h"

namespace profctl {
namespace {

using profd::v1::Finding;
using profd::v1::FindingThread;

constexpr double kLeastJoined = 0.2;  // of the calls

// What the shares are of.
std::string WholeOf(const SampleTypeInfo& kind, bool idle_shown) {
  switch (kind.kind) {
    case profd::Kind::kWait:
    case profd::Kind::kWaker:
      return idle_shown ? "of the waiting" : "of the non-idle waiting";
    case profd::Kind::kLocks:
      return idle_shown ? "of the waits for locks" : "of the contention";
    case profd::Kind::kRunQueue:
      return "of the time in the run queue";
    case profd::Kind::kWall:
      return idle_shown ? "of the time" : "of the non-idle time";
    case profd::Kind::kCpu:
      return "of the time on a CPU";
    case profd::Kind::kInuse:
      return "of the bytes in use";
    case profd::Kind::kResident:
      return "of the resident bytes";
    case profd::Kind::kDisk:
    case profd::Kind::kDiskQueue:
    case profd::Kind::kDiskBytes:
      return absl::StrCat(kind.unit == Unit::kBytes ? "of the bytes" : "of the time",
                          " of disk requests");
    case profd::Kind::kSync:
      return "of the time of file syncs";
    case profd::Kind::kSwitch:
      return "of the context switches";
    default:
      return "of the bytes";
  }
}

std::string DoneTo(const SampleTypeInfo& kind) {
  if (kind.kind == profd::Kind::kInuse) return "allocated";
  return kind.kind == profd::Kind::kResident ? "touched first" : std::string(kind.done);
}

// What the waits of a place are for.
std::string SoughtBy(const Finding& finding) {
  const std::string& kind = finding.lock_kind();
  // These say no more than the reason does.
  if (kind.empty() || kind == "lock" || kind == "other futex wait") {
    return std::string(DescribeReason(finding.reason()).meaning);
  }
  if (kind == "full channel") return "room in a full channel";
  if (kind == "thread join") return "a thread to end";
  if (kind == "parked thread") return "another thread to unpark it";
  return absl::StrCat(kind.starts_with('a') ? "an " : "a ", CleanName(kind));
}

// What waits of the place do to others.
std::string Harm(const std::string& task) {
  if (task == "async task") {
    return " They are in async tasks: a worker that waits runs no other task.";
  }
  if (task == "pool job")
    return " They are in jobs of a pool: a worker that waits runs no other job.";
  return "";
}

// Where each wait is short and the thread does little before the next one, the handover may cost
// more than the work.
std::string ShortTurns(const Finding& finding) {
  if (finding.turns_per_second() == 0) return "";
  return absl::StrCat(" These threads wait ", FormatCount(finding.turns_per_second()),
                      " times a second, and run for ", FormatDuration(finding.turn_ns()),
                      " in between.");
}

std::string Processor(int64_t millicpus) {
  return absl::StrCat(static_cast<double>(millicpus) / 1000, millicpus == 1000 ? " CPU" : " CPUs");
}

// Writes the sentences of one finding.
class Writer {
 public:
  Writer(const Finding& finding, NameWidth names)
      : finding_(finding), kind_(*FindSampleType(finding.sample_type())), names_(names) {}

  std::string Place() const {
    return absl::StrCat(PlaceAndShare(), Who(), ".", Harm(finding_.task()), ShortTurns(finding_));
  }

  std::string LikelyPlace() const {
    return absl::StrCat("Too few samples to be certain of any place. It is likely that ",
                        PlaceAndShare(), Who(), ". A longer window has more samples.");
  }

  std::string Growth() const {
    return absl::StrCat("What ", Name(finding_.function()), " ", DoneTo(kind_), " grew most: by ",
                        FormatValue(finding_.value(), kind_.unit), " in the window, to ",
                        FormatValue(finding_.level(), kind_.unit), Who(), ".");
  }

  std::string FileSync() const {
    const profd::v1::FileSync& sync = finding_.sync();
    std::string text = absl::StrCat(
        CleanName(sync.call()), " of ", Name(CleanName(sync.file())), " took ",
        FormatDuration(sync.total_ns()), " in ", FormatCount(sync.calls()),
        sync.calls() == 1 ? " call" : " calls", ", p99 below ", FormatDuration(sync.p99_ns()));
    if (!finding_.function().empty()) {
      const bool mostly = 2 * (sync.total_ns() - sync.stack_ns()) > sync.total_ns();
      absl::StrAppend(&text, ", ", mostly ? "most of all " : "", "from ",
                      Name(finding_.function()));
    }
    text += ".";
    const auto joined = static_cast<double>(sync.joined());
    const auto calls = static_cast<double>(sync.calls());
    if (joined >= kLeastJoined * calls) {
      absl::StrAppend(&text, " ", FormatShare(joined, calls),
                      " of the calls began while another thread synced it.");
    }
    return text;
  }

  std::string CpuQuota() const {
    const profd::v1::CpuQuota& quota = finding_.cpu_quota();
    const uint32_t more = finding_.processes() - 1;
    return absl::StrCat(
        "The CPU quota of ", Name(CleanName(finding_.process())), " (", finding_.pid(), ")",
        more > 0 ? absl::StrCat(" and ", FormatCount(more), " more") : "", ", ",
        Processor(quota.millicpus()), ", ran out in ",
        FormatCount(static_cast<uint64_t>(quota.throttled_periods())), " of ",
        FormatCount(static_cast<uint64_t>(quota.periods())), " periods and held threads back for ",
        FormatDuration(finding_.value()), ", all CPUs together. They were in the run queue then.");
  }

  std::string RunQueue() const {
    const FindingThread& worst = finding_.top_threads(0);
    return absl::StrCat(
        "Threads could run for ", FormatDuration(finding_.whole()), " and had no CPU for ",
        FormatShare(static_cast<double>(finding_.value()), static_cast<double>(finding_.whole())),
        " of it (", FormatDuration(finding_.value()), "); the most was ",
        FormatDuration(worst.time_ns()), ", in ", Name(CleanName(worst.name())), " (", worst.tid(),
        ").", WhoRan());
  }

  std::string BusyThreads() const {
    std::string text = "On a CPU nearly all the time: ";
    for (int i = 0; i < finding_.top_threads_size(); ++i) {
      const FindingThread& thread = finding_.top_threads(i);
      absl::StrAppend(
          &text, i == 0 ? "" : ", ", CleanName(thread.name()), " (", thread.tid(), ", ",
          FormatShare(static_cast<double>(thread.time_ns()), static_cast<double>(thread.wall_ns())),
          ")");
    }
    const uint32_t more = finding_.threads() - static_cast<uint32_t>(finding_.top_threads_size());
    if (more > 0) absl::StrAppend(&text, " and ", FormatCount(more), " more");
    return text + ". Each can use one CPU only.";
  }

 private:
  std::string Name(const std::string& name) const {
    return names_ == NameWidth::kFitting ? FittingName(name) : name;
  }

  // ", in tokio-rt-worker (4 threads)"; the group with the most of it.
  std::string Who() const {
    std::string text = finding_.group().empty() ? "" : absl::StrCat(", in ", finding_.group());
    if (finding_.more_groups() > 0) {
      absl::StrAppend(&text, text.empty() ? ", in " : " and ", finding_.more_groups(), " more");
    } else if (finding_.threads() > 1) {
      absl::StrAppend(&text, text.empty() ? ", in " : " (", FormatCount(finding_.threads()),
                      text.empty() ? " threads" : " threads)");
    }
    return text;
  }

  // The lock, or how many there are.
  std::string Locks() const {
    if (finding_.locks() > 1) return absl::StrCat(FormatCount(finding_.locks()), " locks");
    std::string lock = CleanName(finding_.lock());
    if (!finding_.lock_kind().empty()) {
      absl::StrAppend(&lock, " (", CleanName(finding_.lock_kind()), ")");
    }
    return Name(lock);
  }

  // What is done there, without who does it.
  std::string PlaceAndShare() const {
    std::string does;
    if (kind_.kind == profd::Kind::kCpu || finding_.reason() == profd::v1::REASON_ON_CPU) {
      does = "is spent running ";
    } else if (finding_.locks() > 0) {
      does = absl::StrCat("is for ", Locks(), ", by ");
    } else if (kind_.kind == profd::Kind::kRunQueue) {
      does = "is that of ";
    } else if (kind_.kind == profd::Kind::kSwitch) {
      does = finding_.reason() == profd::v1::REASON_RUNQUEUE
                 ? "are preemptions in "
                 : absl::StrCat("are to wait for ", SoughtBy(finding_), ", by ");
    } else if (kind_.HasReasons()) {
      does = absl::StrCat(kind_.kind == profd::Kind::kWall ? "is spent waiting for " : "is for ",
                          SoughtBy(finding_), ", by ");
    } else {
      does = absl::StrCat(kind_.unit == Unit::kBytes ? "were " : "was ", DoneTo(kind_), " by ");
    }
    const auto error = static_cast<double>(finding_.error());
    const Estimate estimate = {.value = finding_.value(), .variance = error * error};
    return absl::StrCat(
        estimate.Share(static_cast<double>(finding_.whole())), " ", WholeOf(kind_, finding_.idle()),
        " (", FormatValue(finding_.value(), kind_.unit), ") ", does, Name(finding_.function()));
  }

  // Who had the CPUs that threads waited for.
  std::string WhoRan() const {
    if (finding_.occupants_size() > 0) {
      return DescribeOccupants(finding_.occupants(), finding_.value());
    }
    if (finding_.cpu_group().empty()) return "";
    const uint32_t threads = finding_.cpu_threads();
    return absl::StrCat(" ", FormatShare(finding_.cpu_share(), 1),
                        " of the targets' CPU time went to ", Name(finding_.cpu_group()),
                        threads > 1 ? absl::StrCat(" (", FormatCount(threads), " threads)") : "",
                        ".");
  }

  const Finding& finding_;
  const SampleTypeInfo& kind_;
  const NameWidth names_;
};

}  // namespace

std::string DescribeFinding(const Finding& finding, NameWidth names) {
  const Writer writer(finding, names);
  switch (finding.rule()) {
    case profd::v1::FINDING_RULE_CPU_QUOTA:
      return writer.CpuQuota();
    case profd::v1::FINDING_RULE_PLACE:
      return writer.Place();
    case profd::v1::FINDING_RULE_LIKELY_PLACE:
      return writer.LikelyPlace();
    case profd::v1::FINDING_RULE_FILE_SYNC:
      return writer.FileSync();
    case profd::v1::FINDING_RULE_GROWTH:
      return writer.Growth();
    case profd::v1::FINDING_RULE_RUN_QUEUE:
      return writer.RunQueue();
    case profd::v1::FINDING_RULE_BUSY_THREADS:
      return writer.BusyThreads();
    default:
      return "";
  }
}

}  // namespace profctl
