// Package addresses decides which addresses and names of a guest's answers may
// get into a Service, a Node or a route. Whoever may say them steers traffic:
// kube-proxy takes what is sent to a load balancer's address for the Service,
// wherever in the cluster it is sent from; the API server connects to a Node's
// addresses for logs and exec; the cloud sends what a route covers to a Node.
//
// It is the one owner of that: it reads addresses strictly, in one way, and
// refuses by default what can never be right. The administrator opens what his
// cloud uses, and closes what it must not.
package addresses
