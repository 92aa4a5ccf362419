// SPDX-License-Identifier: Apache-2.0
// What all pages of the console share.
