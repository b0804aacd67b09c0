// Messages that several JSON outputs share.
#ifndef PROFD_CLIENT_RENDER_JSON_PARTS_H_
#define PROFD_CLIENT_RENDER_JSON_PARTS_H_

#include <string>

#include "google/protobuf/repeated_field.h"
#include "nlohmann/json.hpp"
#include "profd/v1/profiler.pb.h"

namespace profctl {

nlohmann::ordered_json ToJson(const google::protobuf::RepeatedPtrField<profd::v1::Loss>& losses);
// Sources without any cost are left out.
nlohmann::ordered_json ToJson(const profd::v1::Cost& cost);
nlohmann::ordered_json ToJson(const profd::v1::HeapTotal& heap);
nlohmann::ordered_json ToJson(const profd::v1::TargetCost& cost);
// One line ended by a newline; bytes that are not UTF-8 become U+FFFD.
std::string DumpJson(const nlohmann::ordered_json& json);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_JSON_PARTS_H_
