/* SPDX-License-Identifier: Apache-2.0 */
/* options_used.c - what only options need is not included; a public import is. */
#include "checks/check.h"

#ifdef PROTOBUF_C_google_2fprotobuf_2fdescriptor_2eproto__INCLUDED
#error "descriptor.pb-c.h is dragged in"
#endif
#ifdef PROTOBUF_C_google_2fprotobuf_2ftimestamp_2eproto__INCLUDED
#error "an import that serves nothing is included"
#endif

int main(void)
{
    Google__Protobuf__Duration duration = GOOGLE__PROTOBUF__DURATION__INIT;
    CHECK(duration.seconds == 0);
    return 0;
}
