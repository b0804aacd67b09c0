// Assembles the answer to a GetStatus.
#ifndef PROFD_DAEMON_SERVICE_STATUS_ANSWER_H_
#define PROFD_DAEMON_SERVICE_STATUS_ANSWER_H_

#include "daemon/service/answer.h"
#include "daemon/service/sources.h"
#include "profd/v1/profiler.pb.h"

namespace profd {

void FillStatus(const ServiceSources& sources, const HostInfo& host,
                v1::GetStatusResponse* response);

}  // namespace profd

#endif  // PROFD_DAEMON_SERVICE_STATUS_ANSWER_H_
