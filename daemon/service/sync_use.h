// File syncs of an answer, by file and call.
#ifndef PROFD_DAEMON_SERVICE_SYNC_USE_H_
#define PROFD_DAEMON_SERVICE_SYNC_USE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/service/named_stacks.h"
#include "daemon/service/object_text.h"
#include "daemon/store/store.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

// "fdatasync". `argument` is PROFD_SYNC_ARGUMENT.
std::string_view SyncCallName(uint64_t argument);
// "fdatasync of /data/wal"; of a sample of Kind::kSync.
std::string DescribeSync(const SampleKey& key, WaitObjects& objects);

// Adds the file syncs of all threads, whose stacks were added to `stacks`.
void FillSyncs(const MergedProfile& profile, const NamedStacks& stacks, WaitObjects& objects,
               v1::Profile* out);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_SYNC_USE_H_
