/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - SIGINT, SIGTERM and SIGHUP as a flag that the loops look at. */
#ifndef PARAMETER_SERVER_STOP_H
#define PARAMETER_SERVER_STOP_H

/* The signal that asked this program to stop; 0 while none has. */
int stop_signal(void);

/* From now on they set the flag. A SIGINT or SIGHUP that the parent had ignored stays ignored: parameter-train's children are
 * stopped by it, not by the terminal, and nohup works. */
void stop_watch(void);

#endif
