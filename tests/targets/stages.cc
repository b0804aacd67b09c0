// Programs of known throughput, with and without their bottleneck. All work is naps, so that the
// CPUs of the machine do not matter. Each thread asks a peer, which naps for it.
#include <semaphore.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>

#include "tests/targets/meter.h"
#include "tests/targets/scenarios.h"

namespace waiter {
namespace stages {

constexpr int kStages = 3, kRoom = 4;
constexpr int64_t kShortUs = 4'000, kLongUs = 10'000;

struct Stage {
  const char* name;
  const char* peer_name;
  int64_t nap_us = 0;
  int64_t items = 0;
  sem_t* input = nullptr;  // items that wait; null: there are always some
  sem_t* room = nullptr;   // in the queue behind; null: there is always some
  sem_t* input_room = nullptr;
  sem_t* output = nullptr;
  int request[2] = {}, reply[2] = {};
};

KEEP_FRAME void Serve(const Stage& stage) {
  if (stage.nap_us > 0) usleep(static_cast<useconds_t>(stage.nap_us));
}

KEEP_FRAME void Answer(const Stage& stage) { Check(write(stage.reply[1], "x", 1) == 1, "write"); }

KEEP_FRAME void* Peer(void* argument) {
  const Stage& stage = *static_cast<Stage*>(argument);
  Meter meter(stage.peer_name);
  char byte = 0;
  while (read(stage.request[0], &byte, 1) == 1) {
    Serve(stage);
    Answer(stage);
  }
  return nullptr;
}

KEEP_FRAME void AskPeer(const Stage& stage) {
  char byte = 'x';
  Check(write(stage.request[1], &byte, 1) == 1, "write");
  Check(read(stage.reply[0], &byte, 1) == 1, "read");
}

KEEP_FRAME void* Work(void* argument) {
  const Stage& stage = *static_cast<Stage*>(argument);
  Meter meter(stage.name);
  for (int64_t i = 0; i < stage.items; i++) {
    if (stage.input != nullptr) {
      sem_wait(stage.input);
      sem_post(stage.input_room);
    }
    AskPeer(stage);
    if (stage.output != nullptr) {
      sem_wait(stage.room);
      sem_post(stage.output);
    }
  }
  close(stage.request[1]);
  return nullptr;
}

// How long so many items take, ns.
int64_t Run(int64_t items, int64_t middle_us) {
  std::array<Stage, kStages> all = {{{.name = "parse", .peer_name = "parse-peer"},
                                     {.name = "store", .peer_name = "store-peer"},
                                     {.name = "send", .peer_name = "send-peer"}}};
  std::array<sem_t, kStages> filled, room;
  std::array<pthread_t, kStages> workers, peers;
  for (size_t i = 0; i < kStages; i++) {
    sem_init(&filled[i], 0, 0);
    sem_init(&room[i], 0, kRoom);
    all[i].nap_us = i == 1 ? middle_us : kShortUs;
    all[i].items = items;
    Check(pipe(all[i].request) == 0 && pipe(all[i].reply) == 0, "pipe");
  }
  for (size_t i = 0; i + 1 < kStages; i++) {
    all[i].output = all[i + 1].input = &filled[i];
    all[i].room = all[i + 1].input_room = &room[i];
  }
  const int64_t begin = Now();
  for (size_t i = 0; i < kStages; i++) {
    peers[i] = Start(Peer, &all[i]);
    workers[i] = Start(Work, &all[i]);
  }
  for (const pthread_t worker : workers) Join(worker);
  const int64_t took = Now() - begin;
  for (const pthread_t peer : peers) Join(peer);
  for (const Stage& stage : all) {
    for (const int fd : {stage.request[0], stage.reply[0], stage.reply[1]}) close(fd);
  }
  return took;
}

}  // namespace stages

void Stages(const Arguments& arguments) {
  const int64_t items = arguments.Number(0, 300);
  char where[100];
  const auto say = [&](const char* word, int64_t ns) {
    snprintf(where, sizeof(where), "%s {\"items\": %" PRId64 ", \"ns\": %" PRId64 "}", word, items,
             ns);
    Stop(where);
  };
  say("removed", stages::Run(items, 0));
  say("limited", stages::Run(items, stages::kLongUs));
}

}  // namespace waiter
