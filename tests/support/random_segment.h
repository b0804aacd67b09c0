// Segments of any content, for tests and for the seeds of fuzzers.
#ifndef PROFD_TESTS_SUPPORT_RANDOM_SEGMENT_H_
#define PROFD_TESTS_SUPPORT_RANDOM_SEGMENT_H_

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/ledger_fields.h"
#include "daemon/store/slice.h"

namespace profd {

// Zero, small, large or negative.
inline int64_t RandomNumber(std::mt19937_64* random) {
  switch ((*random)() % 5) {
    case 0:
      return static_cast<int64_t>((*random)());
    case 1:
      return -static_cast<int64_t>((*random)() % 1000);
    case 2:
      return static_cast<int64_t>((*random)() % 1'000'000'000);
    default:
      return 0;
  }
}

inline LedgerDelta RandomLedger(std::mt19937_64* random) {
  LedgerFields fields;
  for (int64_t& field : fields) field = RandomNumber(random);
  return FromFields(fields);
}

inline SliceHeader RandomHeader(std::mt19937_64* random) {
  SliceHeader header;
  header.span.begin_ns = static_cast<int64_t>((*random)() >> 2);
  header.span.end_ns = header.span.begin_ns + static_cast<int64_t>((*random)() % 2'000'000'000);
  header.books_ns = header.LengthNs();
  header.bursts_on_ns = RandomNumber(random);
  header.tick_interval_ns = 10'000'000;
  header.ticks = 100;
  header.torn_walks = RandomNumber(random);
  header.lost_weight_ns = RandomNumber(random);
  header.drains = (*random)() % 2 == 0 ? 1 : 10;
  header.folded_threads = RandomNumber(random);
  header.long_rest_ns = RandomNumber(random);
  header.long_work_ns = RandomNumber(random);
  header.cost.in_path_ns = RandomNumber(random);
  header.cost.burst_calls = RandomNumber(random);
  for (uint64_t n = (*random)() % 4; n > 0; n--) {
    header.cost.targets.push_back({.target = static_cast<uint32_t>((*random)()),
                                   .in_path_ns = RandomNumber(random),
                                   .switches = RandomNumber(random)});
  }
  for (uint64_t n = (*random)() % 4; n > 0; n--) {
    header.losses[(*random)() % kLossCount] = (*random)();
  }
  return header;
}

inline Site RandomSite(std::mt19937_64* random, const std::vector<StackId>& stacks) {
  return {.stack = stacks.empty() ? StackId{} : stacks[(*random)() % stacks.size()],
          .argument = (*random)() % 3 == 0 ? uint64_t{PROFD_BURST_ARGUMENT} : (*random)() % 9,
          .syscall = static_cast<int32_t>((*random)() % 400) - 1,
          .reason = static_cast<Reason>((*random)() % kReasonCount),
          .kind = static_cast<Kind>((*random)() % kStoredKindCount)};
}

inline Slice RandomSlice(std::mt19937_64* random, const Segment& segment) {
  Slice slice;
  slice.header = RandomHeader(random);
  for (uint32_t thread = 0; thread < segment.threads.size(); thread++) {
    if ((*random)() % 3 == 0) continue;
    Row row{.thread = thread};
    if ((*random)() % 3 == 0) {
      row.rest_ns = 1'000'000'000 + static_cast<int64_t>((*random)() % 1000);
      if ((*random)() % 2 == 0) {
        row.rest_reason = static_cast<uint8_t>((*random)() % kReasonCount);
      }
    }
    if ((*random)() % 3 == 0) {
      row.ledger = static_cast<uint32_t>(slice.ledgers.size());
      slice.ledgers.push_back(RandomLedger(random));
    }
    for (uint32_t site = 0; site < segment.sites.size(); site++) {
      if ((*random)() % 3 != 0) continue;
      const auto ticks = static_cast<int64_t>((*random)() % 200);
      const int64_t usual = ticks * slice.header.tick_interval_ns;
      slice.samples.push_back({{(*random)() % 2 == 0 ? usual : RandomNumber(random), ticks}, site});
      row.samples++;
      if (slice.header.drains != 1 && IsFromBursts(KeyOf({}, segment.sites[site]))) {
        slice.squares.push_back(static_cast<double>((*random)() % 1000));
      }
    }
    slice.rows.push_back(row);
  }
  if (segment.threads.empty() || segment.sites.empty()) return slice;
  for (uint64_t n = (*random)() % 4; n > 0; n--) {
    StackId waker{};
    if (!segment.stacks.empty() && (*random)() % 2 == 0) {
      waker = segment.stacks[(*random)() % segment.stacks.size()]->id;
    }
    slice.waits.push_back({.thread = static_cast<uint32_t>((*random)() % segment.threads.size()),
                           .site = static_cast<uint32_t>((*random)() % segment.sites.size()),
                           .begin_ns = RandomNumber(random),
                           .duration_ns = static_cast<int64_t>((*random)() >> 1),
                           .doubt_ns = static_cast<int64_t>((*random)() % 2),
                           .similar = (*random)() % 3,
                           .waker = waker,
                           .earlier = (*random)() % 2 == 0,
                           .lasts = (*random)() % 2 == 0});
  }
  return slice;
}

inline Segment RandomSegment(std::mt19937_64* random) {
  Segment segment;
  for (uint64_t n = (*random)() % 10; n > 0; n--) {
    segment.threads.push_back(std::make_shared<const ThreadInfo>(
        ThreadInfo{.id = ThreadId{(*random)()},
                   .pid = static_cast<int32_t>((*random)() % 9),
                   .tid = static_cast<int32_t>((*random)()),
                   .target = static_cast<uint32_t>((*random)() % 3),
                   .name = std::string((*random)() % 16, static_cast<char>((*random)())),
                   .process = std::string((*random)() % 16, 'p'),
                   .exited = (*random)() % 2 == 0,
                   .start_ns = RandomNumber(random),
                   .process_start_ns = RandomNumber(random),
                   .only_levels = (*random)() % 4 == 0}));
  }
  for (uint64_t n = (*random)() % 4; n > 0; n--) {
    segment.modules.emplace(
        ModuleId{static_cast<uint32_t>((*random)())},
        std::make_shared<const ModuleIdentity>(
            ModuleIdentity{.path = std::string((*random)() % 16, static_cast<char>((*random)())),
                           .build_id = std::string((*random)() % 4, 'b'),
                           .headers_id = std::string((*random)() % 4, 'h')}));
  }
  if ((*random)() % 2 == 0) {
    segment.boot = std::make_shared<const BootIdentity>(
        BootIdentity{.boot_id = std::string((*random)() % 16, 'i'),
                     .kernel_build_id = std::string((*random)() % 16, 'k'),
                     .kernel_text = (*random)()});
  }
  std::vector<StackId> stacks;
  for (uint64_t n = (*random)() % 10; n > 0; n--) {
    StackTrace stack;
    stack.id = StackId{(*random)()};
    stack.walk = WalkResult{static_cast<uint8_t>((*random)() % PROFD_WALK_COUNT)};
    for (uint64_t frames = (*random)() % 20; frames > 0; frames--) {
      stack.frames.push_back((*random)() % 2 == 0 ? (*random)() : (*random)() % 5);
    }
    stack.kernel_frames = static_cast<uint16_t>((*random)() % (stack.frames.size() + 1));
    stacks.push_back(stack.id);
    // Some never arrived.
    if ((*random)() % 4 == 0) continue;
    segment.stacks.push_back(std::make_shared<const StackTrace>(std::move(stack)));
  }
  for (uint64_t n = (*random)() % 10; n > 0; n--) {
    const Site site = RandomSite(random, stacks);
    if (std::find(segment.sites.begin(), segment.sites.end(), site) == segment.sites.end()) {
      segment.sites.push_back(site);
    }
  }
  for (uint64_t n = 1 + (*random)() % 3; n > 0; n--) {
    segment.slices.push_back(RandomSlice(random, segment));
  }
  return segment;
}

}  // namespace profd

#endif  // PROFD_TESTS_SUPPORT_RANDOM_SEGMENT_H_
