#include "daemon/source/thread.h"

#include <algorithm>
#include <utility>

#include "daemon/source/record.h"

namespace profd {
namespace {

// Names of threads at rest can be changed by others.
constexpr int64_t kWholeReadingInterval = 120'000'000'000;
// How often the accounts of a drain are read at most, and by how much longer than others a reading
// may take.
constexpr int kMostReadings = 3;
constexpr double kReadingNs = 100'000;
constexpr double kSlowReading = 1.25;
// By how much what counts as quick may grow from one reading to the next, beside that.
constexpr double kSlowerReading = 1.125;
// Work of a reading, in threads that it leaves out: that which is always the same, and a record.
constexpr double kUnitsPerReading = 300;
constexpr double kUnitsPerRecord = 4;

}  // namespace

std::vector<uint32_t> ThreadSource::records() const {
  return {PROFD_RECORD_THREAD, PROFD_RECORD_EXITING, PROFD_RECORD_DEAD};
}

absl::Status ThreadSource::OnRecord(uint32_t type, std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const auto record, DecodeRecord<profd_thread_record>(bytes));
  accounts_.Apply(record);
  if (type == PROFD_RECORD_THREAD) ++written_;
  return absl::OkStatus();
}

int64_t ThreadSource::Open() {
  const int64_t begin = Read();
  accounts_.ForgetPast();
  return begin;
}

int64_t ThreadSource::Read() {
  const Clock& clock = *context_.clock;
  int64_t end = 0;
  // Accounts are totals: read once more they are those of a later instant. What is read in one go
  // is of one instant, and one that this thread, or its CPU, was kept from is not.
  for (int reading = 0; reading < kMostReadings; ++reading) {
    int64_t begin = clock.MonotonicNs();
    double units = ReadOnce();
    if (units > 0 && read_all_) {
      // Someone who was thought to wait is gone.
      context_.ring->Poll();
      begin = clock.MonotonicNs();
      units = ReadOnce();
    }
    end = clock.MonotonicNs();
    if (units == 0) break;
    const auto took = static_cast<double>(end - begin);
    const double slower = quick_unit_ns_ * kSlowerReading + kReadingNs / units;
    quick_unit_ns_ = quick_unit_ns_ == 0 ? took / units : std::min(took / units, slower);
    if (took <= quick_unit_ns_ * units * kSlowReading + kReadingNs) break;
  }
  return end;
}

double ThreadSource::ReadOnce() {
  const int64_t now = context_.clock->MonotonicNs();
  const bool due = now >= next_whole_reading_ns_;
  const bool all = std::exchange(read_all_, false) || due;
  if (all) next_whole_reading_ns_ = now + kWholeReadingInterval;
  whole_ |= due;
  written_ = 0;
  accounts_.BeginReading();
  const absl::StatusOr<LeftOut> left_out = context_.kernel->DrainThreads(
      [this](std::span<const uint8_t> bytes) { context_.ring->Dispatch(bytes); }, all);
  if (!left_out.ok()) {
    failed_.Update(left_out.status());
    read_all_ = true;
    return 0;
  }
  read_all_ = !accounts_.EndReading(*left_out, all) && !all;
  return kUnitsPerReading + kUnitsPerRecord * static_cast<double>(written_) +
         static_cast<double>(left_out->threads);
}

std::set<int32_t> ThreadSource::Processes() const {
  std::set<int32_t> processes;
  for (const Accounts::TargetThreads& entry : accounts_.ByTarget()) {
    if (entry.pid > 0) processes.insert(entry.pid);
  }
  return processes;
}

absl::Status ThreadSource::Drain(ProfileDelta& delta) {
  delta.books_on = books_;
  delta.end_ns = Read();
  // Who began to exit meanwhile was perhaps not read any more, and tells its account itself.
  context_.ring->Poll();
  const auto exited = context_.kernel->DrainExited();
  failed_.Update(exited.status());
  if (exited.ok()) accounts_.ApplyExited(*exited);
  accounts_.Finish(delta);
  for (const ThreadLedger& ledger : delta.ledgers) {
    faults_ += ledger.delta.minor_faults + ledger.delta.major_faults;
    cpu_ns_ += ledger.delta.on_cpu_ns;
  }
  for (const TargetActivity& target : accounts_.activity()) switches_ += target.switches;
  const uint64_t unseen = accounts_.switches_unseen();
  delta.losses[PROFD_LOSS_SWITCH_UNSEEN] += unseen - std::exchange(unseen_, unseen);
  const uint64_t vanished = accounts_.vanished();
  delta.losses[static_cast<size_t>(Loss::kThreadVanished)] +=
      vanished - std::exchange(vanished_, vanished);
  return std::exchange(failed_, absl::OkStatus());
}

std::optional<LayerState> ThreadSource::Status() const {
  return LayerState{.name = "books", .on = books_, .note = books_ ? "" : kDisabledNote};
}

}  // namespace profd
