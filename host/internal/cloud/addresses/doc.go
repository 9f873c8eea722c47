// Package addresses decides which addresses and names of a guest's answers may get into a
// Service, a Node or a route. They direct the cluster's traffic: kube-proxy redirects
// traffic for a load balancer's address to the Service, everywhere in the cluster. The API
// server connects to a Node's addresses for logs and exec. The cloud sends the traffic of a
// route to a Node.
//
// No other package decides this. It reads addresses strictly, in one way, and by default
// refuses addresses that can never be right. The administrator can allow and deny more.
package addresses
