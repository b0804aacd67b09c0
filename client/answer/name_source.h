// How the names of functions were found, in words.
#ifndef PROFD_CLIENT_ANSWER_NAME_SOURCE_H_
#define PROFD_CLIENT_ANSWER_NAME_SOURCE_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/answer/profile.h"

namespace profctl {

// "symbol table", "function bounds"; empty where it goes without saying: kernel, profd, not known.
std::string_view NameSourceText(profd::v1::NameSource source);

// The name is a place and no name.
bool IsPlaceOnly(profd::v1::NameSource source);

// How the functions of a profile got their names, the largest share first.
std::vector<profd::v1::NameShare> NameSharesOf(const Profile& profile);
// "62.0% symbol table, 31.0% function bounds"
std::string NameSharesText(const std::vector<profd::v1::NameShare>& shares);
// The text for a profile. Empty if nearly all functions have names.
std::string DescribeNameShares(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_NAME_SOURCE_H_
