// Measures a context switch, between two threads of our own.
#ifndef PROFD_DAEMON_SOURCE_SWITCH_ENTRY_H_
#define PROFD_DAEMON_SOURCE_SWITCH_ENTRY_H_

#include <vector>

namespace profd {

// What it takes to enter a program at a context switch or a wake-up, ns, where it could not be
// measured.
inline constexpr double kAssumedEntryNs = 100;

// Two threads on one CPU yield to each other, about a millisecond in total, or up to about 25 ms if
// the CPU is busy and profd may have no real-time priority. Appends the mean CPU time from one
// switch to the next, ns, for each round. Appends nothing if the threads cannot be created, if the
// scheduler does not switch when a thread yields, or if the CPU is too busy for a single round.
void MeasureSwitches(std::vector<double>* rounds);

// The cost of entering a program, ns a switch, from rounds that were measured in turns: without the
// program, with it, without it, and so on. kAssumedEntryNs if that is not a positive number.
double EntryNs(std::vector<std::vector<double>> turns);

}  // namespace profd

#endif  // PROFD_DAEMON_SOURCE_SWITCH_ENTRY_H_
