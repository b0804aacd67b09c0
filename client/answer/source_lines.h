// Files and line numbers of frames, in words.
#ifndef PROFD_CLIENT_ANSWER_SOURCE_LINES_H_
#define PROFD_CLIENT_ANSWER_SOURCE_LINES_H_

#include <string>

#include "client/answer/profile.h"

namespace profctl {

// "/src/queue.cc:123"; empty if the file is not known.
std::string SourcePlace(const Frame& frame);

// Adds the base name of the file and the line to the function of each frame that has them:
// "Queue::pop (queue.cc:123)".
void AddLinesToNames(Profile* profile);

// Removes inlined functions from stacks: answers to compare may know more or less of them.
void DropInlined(Profile* profile);

// What is missing of the lines that were asked for, and what to do; empty if nothing is.
std::string DescribeLines(const Profile& profile);

}  // namespace profctl

#endif  // PROFD_CLIENT_ANSWER_SOURCE_LINES_H_
