// Names of functions without the arguments of generics and templates, in a whole answer.
#ifndef PROFD_CLIENT_ANSWER_SHORT_NAMES_H_
#define PROFD_CLIENT_ANSWER_SHORT_NAMES_H_

#include "profd/v1/profiler.pb.h"

namespace profctl {

// "walk<...>" instead of "walk<A, B<C>>", wherever the message names a function. Names from perf
// maps stay: they are of any language.
void ShortenNames(profd::v1::Profile* message);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_SHORT_NAMES_H_
