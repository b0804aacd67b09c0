// The ways to wait. Each runs to its end and returns; its threads have published their meters.
#ifndef PROFD_TESTS_TARGETS_SCENARIOS_H_
#define PROFD_TESTS_TARGETS_SCENARIOS_H_

#include <cstdint>

namespace waiter {

struct Arguments {
  const char* program;  // path of this executable
  int count;
  const char* const* values;

  // The argument at `index` as a number, or `otherwise` when it was not given.
  int64_t Number(int index, int64_t otherwise) const;
  // As text; "" when it was not given.
  const char* Text(int index) const;
};

// Reads stdin up to the end of a line; false at its end.
bool AwaitLine();
// Says where it stands and waits until it may go on.
void Stop(const char* where);

// naps.cc
void Naps(const Arguments& arguments);      // US COUNT
void TwoPaths(const Arguments& arguments);  // MILLISECONDS SEED
void Migrate(const Arguments& arguments);   // COUNT: another CPU before each nap of 5 ms
// COUNT: so many rounds of nine naps in one function and three in another. Says "left" and how
// often each gave up its CPU.
void Leave(const Arguments& arguments);

// phases.cc
// ROUNDS: says where it stands at begin and end of each phase, in which one thread differs.
void Phases(const Arguments& arguments);

// blocking.cc
void Mutex(const Arguments& arguments);     // COUNT: held 20 ms each
void Poll(const Arguments& arguments);      // COUNT: a byte every 20 ms, poll and epoll_wait
void Stuck(const Arguments& arguments);     // read of a pipe that nobody writes
void Deadlock(const Arguments& arguments);  // two mutexes taken crosswise
void Reasons(const Arguments& arguments);   // COUNT: net, child, signal, fault; 20 ms each

// inlined.cc US COUNT: naps in a function that is inlined twice. Says "lines", and those of the
// calls.
void Inlined(const Arguments& arguments);

// wakers.cc COUNT: waits that two functions of another thread end in turn, after 10 and 30 ms
void Wakers(const Arguments& arguments);

// locks.cc COUNT: four locks in static and heap memory, each held so often by one thread while
// another one wants it; beside them a thread without work. Says "unlocked", the address of the lock
// on the heap, and the offset in `stripes` of the one there.
void Locks(const Arguments& arguments);

// kernel_locks.cc COUNT DIRECTORY: a process holds the lock of a file in it for 20 ms while a
// thread of another one wants it; a third thread waits 10 ms in vain for a System V semaphore; each
// so often. Says "waited", the file, which stays, and the number of the semaphore set.
void KernelLocks(const Arguments& arguments);

// chain.cc COUNT: "front" waits for "middle" by a pipe, that one for "back" by a mutex. In each
// round "back" computes and naps with the mutex, then "middle" computes. Says "chained" and how
// long each of these parts took, ns.
void Chain(const Arguments& arguments);
// delays.cc COUNT: "asker" waits for "clerk", and that one for "expert"; the latter two compute,
// each on a CPU that another thread wants, too. Says "delayed", how long the asker was off CPU, and
// how long each of the three could run but had no CPU, ns.
void Delays(const Arguments& arguments);
// stages.cc ITEMS: a pipeline of three stages, whose peers nap 4, 10 and 4 ms for each item; before
// that the same without the nap of the second one. Says "removed", then "limited", and how long so
// many items took, ns.
void Stages(const Arguments& arguments);
// objects.cc COUNT: threads wait for sockets, pipes, descriptors of other kinds and children, 20 ms
// each. Says "waited", and what they waited for.
void Objects(const Arguments& arguments);
// ends.cc: threads wait for pipes and connections of which other processes have the other end; one
// of those shares both ends. Says "ends", and who has them.
void Ends(const Arguments& arguments);
// stalls.cc COUNT: so many waits of 5 ms, then one of 300 ms; again with 200 and with 600 ms. A
// thread reads a pipe that nobody writes.
void Stalls(const Arguments& arguments);

// crowd.cc
// THREADS COUNT: so many threads that wait for good, a quarter each for a futex, in poll, for a
// pipe and in a sleep. Says "crowded", and waits for a line. Then eight threads take COUNT naps of
// 20 ms.
void Crowd(const Arguments& arguments);

// io.cc
void SlowPipe(const Arguments& arguments);  // COUNT: 4 MB a write
void Fsync(const Arguments& arguments);     // MILLISECONDS DIRECTORY

// spin.cc
void Spin(const Arguments& arguments);  // MILLISECONDS THREADS: all on one CPU
// MILLISECONDS of CPU time, of four parts three in one function and one in another. Says "burnt"
// and how much each took, ns.
void Burn(const Arguments& arguments);
// MILLISECONDS of CPU time, nearly all of it in the vDSO. Says "read".
void Clocks(const Arguments& arguments);

// queue.cc
// MILLISECONDS: a thread and two processes, one of them with less weight, compute on one CPU. Says
// "queued", how long the thread waited for the CPU, for how long each process had it meanwhile, and
// how long ago the thread had been created when all this began ("early"), ns.
void Queue(const Arguments& arguments);
// COUNT: so often, for 100 ms, a process is stopped by a signal and another one by a debugger. Says
// "held" and for how long at least and at most, ns.
void Held(const Arguments& arguments);

// jit.cc
// NAME COUNT: naps of 20 ms below code made at run time, which a perf map names until the end.
void Jit(const Arguments& arguments);

// frames.cc
void BigFrame(const Arguments& arguments);   // COUNT: frames of 40,000 to 540,000 bytes
void Deep(const Arguments& arguments);       // DEPTH COUNT
void Coroutine(const Arguments& arguments);  // COUNT: naps on other stacks, one by makecontext
void Signal(const Arguments& arguments);     // COUNT: naps in a handler, on three kinds of stacks

// lifecycle.cc
void ShortThreads(const Arguments& arguments);  // COUNT: threads of one nap of 50 ms
// COUNT US: one thread after the other uses so much CPU time. Says "stormed" and how much all of
// them used by the kernel's account, ns.
void Storm(const Arguments& arguments);
void Fork(const Arguments& arguments);    // MILLISECONDS: child naps, then execs `naps`
void Plugin(const Arguments& arguments);  // COUNT PATH: naps inside a loaded library

// surge.cc
void Surge(const Arguments& arguments);  // QUIET_MS LOUD_MS: few switches, then as many as can be

// disk.cc
// COUNT DIRECTORY: makes a file of so many blocks of 64 KiB and says "written"; past the page cache
// it then reads 4 KiB of each, each, and writes each. Says "done", with
// how often two blocks that follow each other do not on the disk.
void Disk(const Arguments& arguments);

// sync.cc
// COUNT DIRECTORY: makes four files and says "opened"; then commits to one of them 3 * COUNT times
// with fdatasync, to one 2 * COUNT times with fsync, to one COUNT times with msync, and from four
// threads to the last, COUNT times each with fdatasync. Says "synced" with what it did.
void Sync(const Arguments& arguments);

// maps.cc COUNT: maps so many blocks of each sort, says "mapped" and by how many bytes the heap
// grew, gives half of them up, says "unmapped", and begins again; a line lets it go on.
void Maps(const Arguments& arguments);

// now.cc
// Three threads wait for a mutex that another one holds for good, one reads an empty pipe, four
// sleep and one runs. Says "now" and what they wait for and since when, and waits for a line.
void LookAtMe(const Arguments& arguments);

// touch.cc
void Touch(const Arguments& arguments);  // MIB MIB [huge]: says what it did, a line lets it go on
// memory.cc
// MIB: touches so much, gives it back, touches as much of shared memory, shares that with a child.
// Says "touched", "dropped", "shared" and "halved", and waits for a line after each.
void Memory(const Arguments& arguments);

}  // namespace waiter

#endif  // PROFD_TESTS_TARGETS_SCENARIOS_H_
