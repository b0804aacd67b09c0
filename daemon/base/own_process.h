// The name of the processes that profd starts for itself.
#ifndef PROFD_DAEMON_BASE_OWN_PROCESS_H_
#define PROFD_DAEMON_BASE_OWN_PROCESS_H_

namespace profd {

// Children of profd that read debug info. They are no targets.
inline constexpr char kLineProcessName[] = "profd-lines";

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_OWN_PROCESS_H_
