// The complete answer for machines. docs/profctl.md describes every field.
#ifndef PROFD_CLIENT_RENDER_JSON_H_
#define PROFD_CLIENT_RENDER_JSON_H_

#include <string>

#include "client/profile.h"

namespace profctl {

// Nothing is folded away: idle samples carry the name of their kind of idleness.
std::string RenderJson(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_RENDER_JSON_H_
