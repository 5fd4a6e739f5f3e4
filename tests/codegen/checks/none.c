/* SPDX-License-Identifier: Apache-2.0 */
/* none.c - the program of a case that has no check of its own: that it links is the check. */
int main(void)
{
    return 0;
}
