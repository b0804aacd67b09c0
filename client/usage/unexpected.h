// What to say of arguments that nobody asked for, and of those that are missing.
#ifndef PROFD_CLIENT_USAGE_UNEXPECTED_H_
#define PROFD_CLIENT_USAGE_UNEXPECTED_H_

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace profctl {

// After `app` threw CLI::ExtrasError: names the first argument that no option or command takes, and
// the option that may be meant. In one line, without a full stop.
std::string DescribeUnexpected(const CLI::App& app);

// After `app` threw CLI::RequiredError: names all the arguments that its command still needs, and
// where they are explained. In one line, without a full stop.
std::string DescribeMissing(const CLI::App& app);

}  // namespace profctl

#endif  // PROFD_CLIENT_USAGE_UNEXPECTED_H_
